// What a checkpoint's files say of its other files: a pickle, an index, brackets.
#include "agent/guard/named.hpp"

#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {

void examine(std::string_view bytes) {
  if (const auto names = guard::names_in_pickle(bytes, ".distcp")) {
    must(bytes.ends_with('.'), "a pickle ends with its last opcode");
    for (const std::string& name : *names) {
      must(name.ends_with(".distcp"), "only names with that ending are asked for");
      must(bytes.find(name) != std::string_view::npos, "a name is one that is there");
    }
    must(!guard::names_in_pickle(bytes.substr(0, bytes.size() - 1), ".distcp"),
         "a pickle that is cut off is none");
  }
  guard::Brackets brackets;
  brackets.add(bytes);
  guard::Brackets pieces;
  for (const char each : bytes) pieces.add({&each, 1});
  must(brackets.closed() == pieces.closed(), "how a text comes in pieces does not matter");
  if (guard::names_in_index(bytes)) must(brackets.closed(), "JSON closes what it opens");
}

}  // namespace spotter::fuzz
