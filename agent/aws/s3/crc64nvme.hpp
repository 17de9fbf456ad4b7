// CRC-64/NVME, which S3 computes of every object that comes without another checksum: by carry-less
// multiplication where the processor has it, some 10 GB/s.
#pragma once

#include <cstdint>
#include <string_view>

namespace spotter::s3 {

// Goes on from the checksum of the bytes before; 0: there are none.
std::uint64_t crc64nvme(std::uint64_t before, std::string_view bytes);
// The same, wherever it runs.
std::uint64_t crc64nvme_by_table(std::uint64_t before, std::string_view bytes);

}  // namespace spotter::s3
