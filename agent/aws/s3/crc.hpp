// CRC-32C (Castagnoli), with the processor's own instruction where it has one.
// Source: RFC 3720, appendix B.4 (the polynomial 0x1EDC6F41, reflected)
#pragma once

#include <cstdint>
#include <string_view>

namespace spotter::s3 {

// The sum of the bytes that gave `before`, followed by `bytes`. Begin with 0.
std::uint32_t crc32c(std::uint32_t before, std::string_view bytes);

// The same, without the instruction: for tests to compare with.
std::uint32_t crc32c_by_table(std::uint32_t before, std::string_view bytes);

// CRC-64/NVME, which S3 computes of every object that comes without another checksum: by carry-less
// multiplication where the processor has it, some 10 GB/s.

// Goes on from the checksum of the bytes before; 0: there are none.
std::uint64_t crc64nvme(std::uint64_t before, std::string_view bytes);
// The same, wherever it runs.
std::uint64_t crc64nvme_by_table(std::uint64_t before, std::string_view bytes);

}  // namespace spotter::s3
