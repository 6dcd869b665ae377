// The vectoriser's passes on small pieces of LLVM's IR.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
