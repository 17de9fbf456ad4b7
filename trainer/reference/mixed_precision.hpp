// PyTorch's autocast, for one scope.
#pragma once

#include <ATen/autocast_mode.h>
#include <torch/version.h>

namespace spotter::train {

// While it lives, this thread computes products and convolutions in bfloat16, as
// torch.autocast(device, torch.bfloat16) does. Weights, gradients and the optimizer stay float32;
// so wide an exponent needs no scaling of the loss.
class MixedPrecision {
 public:
  MixedPrecision(const at::Device& device, bool on)
      : key_(at::autocast::get_autocast_dispatch_key_from_device_type(device.type())),
        excluded_(c10::impl::tls_is_dispatch_key_excluded(key_)),
        cached_(at::autocast::is_autocast_cache_enabled()) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
    at::autocast::set_autocast_dtype(device.type(), at::kBFloat16);
#else
    at::autocast::set_autocast_gpu_dtype(at::kBFloat16);  // the CPU's is this by default
#endif
    // A pass uses each weight once; the cache would have to be emptied before the next step.
    at::autocast::set_autocast_cache_enabled(false);
    c10::impl::tls_set_dispatch_key_excluded(key_, !on);
  }
  ~MixedPrecision() {
    c10::impl::tls_set_dispatch_key_excluded(key_, excluded_);
    at::autocast::set_autocast_cache_enabled(cached_);
  }
  MixedPrecision(const MixedPrecision&) = delete;
  MixedPrecision& operator=(const MixedPrecision&) = delete;

 private:
  at::DispatchKey key_;
  bool excluded_;
  bool cached_;
};

}  // namespace spotter::train
