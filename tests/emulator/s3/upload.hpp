// PutObject and UploadPart: the content goes to a file as it comes, its checksums on the way.
#pragma once

#include <memory>

#include "tests/emulator/s3/exchange.hpp"
#include "tests/world/s3/chunks.hpp"

namespace spotter::emulator::s3 {

class Upload : public Exchange {
 public:
  Upload(Service& service, Incoming incoming);

  void take(std::string_view bytes) override;

 protected:
  Answer answer() override;

 private:
  Expected<void> keep_part(const Attributes& attributes);
  void keep(std::string_view bytes);  // decoded
  std::optional<world::ApiError> check();
  std::optional<world::ApiError> check_length() const;
  std::optional<world::ApiError> check_checksum();

  std::shared_ptr<Draft> draft_;
  bool broken_ = false;  // the disk is full, or so
  std::uint64_t size_ = 0;
  std::unique_ptr<api::ChunkDecoder> decoder_;
  std::unique_ptr<api::Digest> payload_;  // where the signature covers it
  std::unique_ptr<api::Digest> md5_;
  std::string md5_raw_;
  std::optional<api::Algorithm> given_;  // the checksum that came with the content
  api::Algorithm algorithm_;
  std::unique_ptr<api::Digest> digest_;
  std::string checksum_;
};

}  // namespace spotter::emulator::s3
