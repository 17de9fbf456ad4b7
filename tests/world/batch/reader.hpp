// The fields of a request's JSON, read by type. Reading never fails at once: the first problem is
// kept, for all readers of one request.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/world/batch/values.hpp"

namespace spotter::world::batch {

using Problem = std::optional<ApiError>;

// "These errors are usually caused by a client action": 400; ServerException is 500.
// https://docs.aws.amazon.com/batch/latest/APIReference/CommonErrors.html
inline ApiError client_error(std::string message) {
  return {"ClientException", std::move(message), 400};
}
inline tl::unexpected<ApiError> client_refusal(std::string message) {
  return tl::unexpected<ApiError>(client_error(std::move(message)));
}

class Reader {
 public:
  Reader(const Json& object, Problem& problem) : object_(&object), problem_(&problem) {
    if (!object.is_object()) refuse("a JSON object is expected");
  }

  bool has(const char* name) const { return !get(name).is_null(); }
  const Json& get(const char* name) const;  // null where it is absent
  std::string text(const char* name) const;
  std::string required(const char* name) const;
  bool boolean(const char* name) const;
  std::optional<int> integer(const char* name, int least, int most) const;
  std::vector<std::string> texts(const char* name) const;
  std::vector<Reader> objects(const char* name) const;
  // {"name": "text", ...}
  Tags map(const char* name) const;
  // The member "tags", as AWS takes it, with `before`, which they join.
  Tags tags(const Tags& before = {}) const;
  // Letters, digits, '-' and '_', at most 128; begins with a letter or a digit.
  std::string identifier(const char* name) const;
  std::string one_of(const char* name, const std::vector<std::string>& values) const;

  void refuse(const std::string& message) const {
    if (!*problem_) *problem_ = client_error("Error executing request, Exception : " + message);
  }
  Problem& problem() const { return *problem_; }

 private:
  const Json* object_;
  Problem* problem_;
};

}  // namespace spotter::world::batch
