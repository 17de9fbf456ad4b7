// The price list's GetProducts (JSON 1.1): what an instance costs on demand. No I/O.
// Sources: https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/
// API_pricing_GetProducts.html, and for the products' attributes
// https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-price-list-query-api.html
#pragma once

#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::wire {

// The list is asked for in one region for all of a partition: https://docs.aws.amazon.com/
// general/latest/gr/billing.html
std::string_view price_list_region(std::string_view region);

// Linux without anything on it, on shared hardware, used without a reservation.
std::string encode_get_products(std::string_view instance_type, std::string_view region);
// Dollars an hour: the lowest of the products that there are. Fails when none has a price in
// dollars.
Result<double> decode_get_products(std::string_view json);

}  // namespace spotter::wire
