// Everything metalki offers to C++: include this.
#pragma once

#include "metalki/buffer.hpp"
#include "metalki/device.hpp"
#include "metalki/error.hpp"
#include "metalki/event.hpp"
#include "metalki/kernel.hpp"
#include "metalki/launch.hpp"
#include "metalki/library.hpp"
#include "metalki/message.hpp"
#include "metalki/profile.hpp"
#include "metalki/queue.hpp"
#include "metalki/task.hpp"
#include "metalki/texture.hpp"
#include "metalki/version.hpp"
