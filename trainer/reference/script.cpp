// A model as TorchScript: what forward() computes is recorded once, on one image.
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/script.h>

#include <exception>
#include <sstream>

#include "trainer/reference/model.hpp"

namespace spotter::train {

namespace jit = torch::jit;

namespace {

// `a.b.weight` is `weight` of the module `b` in the module `a`, made where it is not there yet.
class Modules {
 public:
  Modules()
      : unit_(std::make_shared<jit::CompilationUnit>()),
        root_("__torch__.SpotterNetwork", unit_, false) {}

  jit::Module& root() { return root_; }

  struct Place {
    jit::Module module;
    std::string name;
  };
  Place place_of(const std::string& name) {
    jit::Module module = root_;
    std::size_t at = 0;
    for (std::size_t dot = 0; (dot = name.find('.', at)) != std::string::npos; at = dot + 1) {
      const std::string part = name.substr(at, dot - at);
      if (!module.hasattr(part)) {
        module.register_module(part, jit::Module("__torch__.SpotterLayer", unit_, true));
      }
      module = module.attr(part).toModule();
    }
    return {module, name.substr(at)};
  }

 private:
  std::shared_ptr<jit::CompilationUnit> unit_;
  jit::Module root_;
};

}  // namespace

Result<std::string> torch_script(const Model& model, const Description& description) {
  try {
    const torch::NoGradGuard no_gradients;
    Modules modules;
    for (std::size_t i = 0; i < model.weights.size(); ++i) {
      auto [module, name] = modules.place_of(model.weight_names[i]);
      module.register_parameter(name, model.weights[i], false);
    }
    for (std::size_t i = 0; i < model.statistics.size(); ++i) {
      auto [module, name] = modules.place_of(model.statistic_names[i]);
      module.register_buffer(name, model.statistics[i]);
    }
    const Shape& shape = description.shape;
    const at::Tensor image = at::zeros({1, shape.channels, shape.height, shape.width}, at::kByte);
    const auto forward = [&](jit::Stack stack) -> jit::Stack {
      const at::Tensor images = stack.front().toTensor().to(at::kFloat).div(kBrightest);
      return {model.forward(images, {})};
    };
    const auto traced =
        jit::tracer::trace({image}, forward, [](const at::Tensor&) { return std::string(); }, true,
                           false, &modules.root(), {"images"});
    jit::Module& root = modules.root();
    auto* function = root._ivalue()->compilation_unit()->create_function(
        c10::QualifiedName(*root.type()->name(), "forward"), traced.first->graph);
    root.type()->addMethod(function);
    std::ostringstream stream;
    const Metadata metadata = describe(description);
    root.save(stream, {metadata.begin(), metadata.end()});
    return std::move(stream).str();
  } catch (const std::exception& error) {  // libtorch knows no other way to say it
    return failure(std::string("libtorch cannot write TorchScript: ") + error.what());
  }
}

}  // namespace spotter::train
