// The part of Foundation that compute programs written against metal-cpp use.
#pragma once

#include "NSArray.hpp"
#include "NSAutoreleasePool.hpp"
#include "NSDefines.hpp"
#include "NSDictionary.hpp"
#include "NSEnumerator.hpp"
#include "NSError.hpp"
#include "NSNumber.hpp"
#include "NSObject.hpp"
#include "NSRange.hpp"
#include "NSSharedPtr.hpp"
#include "NSString.hpp"
#include "NSTypes.hpp"
