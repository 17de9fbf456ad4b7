// Nodes as few bytes. Two nodes that differ only in what cannot be distinguished (names of volumes,
// how long ago something is past mattering, absolute numbers of generations and checkpoints) have
// the same bytes.
#pragma once

#include <string>

#include "tests/explore/model.hpp"

namespace spotter::explore {

using Packed = std::basic_string<std::uint8_t>;

// Brings `node` into its normal form. Exact: no rule of the core or of the world here can tell the
// difference (ids keep their order, generations their order and their gaps of one, versions their
// order, times everything up to the limit to which they are compared).
void normalise(Node& node);
Packed pack(Node& node);  // of a normal node; does not change it
Node unpack(const std::uint8_t* bytes);
// Gives the two instances each other's names, and one of them alone as bytes in which it has none.
void mirror(Node& node);
Packed pack_host(Node& node, std::size_t place);
void pass_time(Node& node, Duration by);

// Names that no part of `node` uses.
std::uint8_t unused_volume(Node& node);
std::uint8_t unused_snapshot(Node& node);
// Makes room for a volume whose id is lower than all.
void shift_volumes(Node& node);

}  // namespace spotter::explore
