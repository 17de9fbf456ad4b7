// A check of a launch that AWS did not answer.
#pragma once

#include <string>

#include "agent/aws/aws_calls.hpp"
#include "agent/base/finding.hpp"

namespace spotter::command {

// A warning that names what is not known: `open` is "whether ...".
inline Finding unanswered(const char* check, const CallError& error, const std::string& open) {
  return {check, Finding::Verdict::Warn, error.message,
          open + " is open" +
              (error.forbidden() ? "; give who launches what `spotter iam launcher` prints" : "")};
}

}  // namespace spotter::command
