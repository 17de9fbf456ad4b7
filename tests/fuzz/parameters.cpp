// The hyper-parameters' JSON, as a sweep or SageMaker's hyperparameters.json gives it.
#include "trainer/reference/parameters.hpp"

#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {

void examine(std::string_view bytes) {
  train::Parameters parameters;
  const auto merged = train::merge(parameters, std::string(bytes));
  const auto printed = train::to_json(parameters);
  if (!merged) must(!merged.error().message.empty(), "a refusal has a reason");
  must(parameters.batch_size > 0 && parameters.epochs > 0 && parameters.dropout_rate < 1,
       "also after a mistake the parameters are within their bounds");
  train::Parameters again;
  must(train::merge(again, printed.dump()).has_value(), "parameters printed are accepted");
  must(train::to_json(again) == printed, "and read the same");
}

}  // namespace spotter::fuzz
