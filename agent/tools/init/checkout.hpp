// The git checkout that a person stands in.
#pragma once

#include <string>

namespace spotter::command {

struct GitCheckout {
  std::string address;   // of the remote `origin`, as web_address() makes it; empty: none
  std::string revision;  // HEAD's full commit id; empty: none
  bool pushed = false;   // a branch of a remote that was seen here has HEAD
  bool changed = false;  // files that git knows differ from HEAD
};

// All empty: the current folder is in no checkout, or there is no git.
GitCheckout current_checkout();

}  // namespace spotter::command
