// A library such as PyTorch's libtorch.so: it exports the standard library's remove_all() and
// directory iterators, and they do not work. A program that is linked with it before libstdc++, or
// into which it is preloaded, gets these. By their symbols, as those declare other types.
#include <cstdlib>

// NOLINTNEXTLINE(bugprone-macro-parentheses): a name
#define DOES_NOT_WORK(name, symbol)                                      \
  extern "C" [[gnu::visibility("default")]] void name() __asm__(symbol); \
  void name() { std::abort(); }

DOES_NOT_WORK(remove_all, "_ZNSt10filesystem10remove_allERKNS_7__cxx114pathE")
DOES_NOT_WORK(remove_all_if, "_ZNSt10filesystem10remove_allERKNS_7__cxx114pathERSt10error_code")
DOES_NOT_WORK(list,
              "_ZNSt10filesystem7__cxx1118directory_iteratorC1ERKNS0_4pathENS_"
              "17directory_optionsEPSt10error_code")
DOES_NOT_WORK(list_as_base,
              "_ZNSt10filesystem7__cxx1118directory_iteratorC2ERKNS0_4pathENS_"
              "17directory_optionsEPSt10error_code")
DOES_NOT_WORK(next, "_ZNSt10filesystem7__cxx1118directory_iteratorppEv")
DOES_NOT_WORK(increment, "_ZNSt10filesystem7__cxx1118directory_iterator9incrementERSt10error_code")
DOES_NOT_WORK(walk,
              "_ZNSt10filesystem7__cxx1128recursive_directory_iteratorC1ERKNS0_4pathENS_"
              "17directory_optionsEPSt10error_code")
DOES_NOT_WORK(walk_as_base,
              "_ZNSt10filesystem7__cxx1128recursive_directory_iteratorC2ERKNS0_"
              "4pathENS_17directory_optionsEPSt10error_code")
DOES_NOT_WORK(walk_on, "_ZNSt10filesystem7__cxx1128recursive_directory_iteratorppEv")
DOES_NOT_WORK(walk_increment,
              "_ZNSt10filesystem7__cxx1128recursive_directory_iterator9increment"
              "ERSt10error_code")
