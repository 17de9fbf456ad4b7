// The page, for its tests: of the model on the standard input, or live where that is empty.
#include <cstdio>
#include <iostream>
#include <iterator>

#include "agent/report/page/page.hpp"

int main() {
  const std::string model{std::istreambuf_iterator<char>(std::cin), {}};
  const std::string page = model.empty() ? spotter::page::html() : spotter::page::document(model);
  std::fwrite(page.data(), 1, page.size(), stdout);
  return 0;
}
