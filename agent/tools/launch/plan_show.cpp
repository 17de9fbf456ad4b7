#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

#include "agent/base/json.hpp"
#include "agent/launch/tag_words.hpp"
#include "agent/tools/launch/plan.hpp"

namespace spotter::command {
namespace {

std::string title_of(const Prognosis& it) {
  return it.region.empty() ? it.name : it.region + ": " + it.name;
}

// Of those that are done in time.
double share_within(const Prognosis& it, double budget) {
  std::size_t within = 0;
  for (std::size_t i = 0; i < it.dollars.size(); ++i)
    within += it.in_time[i] && it.dollars[i] <= budget ? 1 : 0;
  return static_cast<double>(within) / static_cast<double>(it.dollars.size());
}

const char* const guessed = " (not known: a guess by the other price)";

nlohmann::ordered_json prices_of(const Order& order) {
  auto regions = nlohmann::ordered_json::array();
  for (const Order::Place& it : order.places)
    regions.push_back(
        {{"region", it.region},
         {"on_demand_price", it.prices.on_demand},
         {"spot_price", it.prices.spot},
         {"zone", it.prices.zone},
         {"known",
          {{"on_demand_price", it.prices.known.on_demand}, {"spot_price", it.prices.known.spot}}}});
  return regions;
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char each : text)
    safe += each == '<' ? "&lt;" : each == '&' ? "&amp;" : std::string(1, each);
  return safe;
}

}  // namespace

std::string hours_text(double hours) { return launch::figure("%.1f", hours) + " h"; }

void print_table(const Order& order, const Plan& plan) {
  std::printf("finish by %s: %s, for %s of training (launch.work) and %s for each start\n",
              wire::to_rfc3339(order.due).c_str(), hours_text(order.time).c_str(),
              hours_text(order.work).c_str(), hours_text(order.start).c_str());
  for (const Order::Place& it : order.places)
    std::printf("%s$%.4g an hour on demand%s, $%.4g on spot%s%s%s\n",
                it.region.empty() ? "" : (it.region + ": ").c_str(), it.prices.on_demand,
                it.prices.known.on_demand ? "" : guessed, it.prices.spot,
                it.prices.known.spot ? "" : guessed, it.prices.zone.empty() ? "" : " in ",
                it.prices.zone.c_str());
  std::size_t width = 32;
  for (const Prognosis& it : plan.prognoses()) width = std::max(width, title_of(it).size());
  const int columns = static_cast<int>(width);
  std::printf("%-*s %8s %19s %8s %15s %7s\n", columns, "", "dollars", "10 % .. 90 %", "hours",
              "10 % .. 90 %", "late");
  for (const Prognosis& it : plan.prognoses())
    std::printf("%-*s %8.2f %8.2f .. %7.2f %8.1f %6.1f .. %5.1f %5.1f %%\n", columns,
                title_of(it).c_str(), mean(it.dollars), percentile(it.dollars, 0.1),
                percentile(it.dollars, 0.9), mean(it.hours), percentile(it.hours, 0.1),
                percentile(it.hours, 0.9),
                100 * static_cast<double>(it.late()) / static_cast<double>(it.dollars.size()));
  if (order.dollars)
    std::printf("limits.dollars $%.2f is enough in %.0f %% of them for this plan\n", *order.dollars,
                100 * share_within(plan.prognoses().back(), *order.dollars));
  std::printf("%s\n", plan.assumption().c_str());
}

void print_json(const Order& order, const Plan& plan) {
  nlohmann::ordered_json document = {{"finish_by", wire::to_rfc3339(order.due)},
                                     {"hours_left", order.time},
                                     {"hours_of_work", order.work},
                                     {"hours_of_a_start", order.start},
                                     {"on_demand_price", order.places.front().prices.on_demand},
                                     {"spot_price", order.places.front().prices.spot},
                                     {"regions", prices_of(order)},
                                     {"on_demand_in", cheapest_on_demand(order).region},
                                     {"assumption", plan.assumption()},
                                     {"plans", nlohmann::ordered_json::array()}};
  const auto spread = [](const std::vector<double>& all) {
    return nlohmann::ordered_json{
        {"mean", mean(all)}, {"p10", percentile(all, 0.1)}, {"p90", percentile(all, 0.9)}};
  };
  for (const Prognosis& it : plan.prognoses())
    document["plans"].push_back({{"name", it.name},
                                 {"region", it.region},
                                 {"dollars", spread(it.dollars)},
                                 {"hours", spread(it.hours)},
                                 {"samples", it.dollars.size()},
                                 {"late", it.late()}});
  std::printf(
      "%s\n",
      document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

bool draw(const Order& order, const Plan& plan, const std::string& file) {
  constexpr double width = 420, line = 34, letter = 7.5;
  std::size_t longest = 0;
  for (const Prognosis& it : plan.prognoses()) longest = std::max(longest, title_of(it).size());
  const double left = std::max(250.0, letter * static_cast<double>(longest) + 20);
  std::ofstream out(file);
  const auto panel = [&](double top, const std::string& title, double most, double mark,
                         std::vector<double> Prognosis::*of) {
    const auto x = [&](double value) { return left + width * std::min(1.0, value / most); };
    char text[512];
    out << "<text x=\"10\" y=\"" << top << "\" font-weight=\"bold\">" << escaped(title)
        << "</text>\n";
    double y = top + 24;
    for (const Prognosis& it : plan.prognoses()) {
      const double low = percentile(it.*of, 0.1), high = percentile(it.*of, 0.9);
      const double middle = mean(it.*of);
      out << "<text x=\"10\" y=\"" << y + 4 << "\">" << escaped(title_of(it)) << "</text>\n";
      std::snprintf(
          text, sizeof text,
          "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#1a73e8\" "
          "stroke-width=\"10\"/><line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" "
          "stroke=\"black\" stroke-width=\"2\"/><text x=\"%.1f\" y=\"%.1f\">%.4g</text>\n",
          x(low), std::max(x(high), x(low) + 2), y, y, x(middle), x(middle), y - 9, y + 9,
          std::max(x(high), x(middle)) + 8, y + 4, middle);
      out << text;
      y += line;
    }
    if (mark > 0 && mark <= most) {
      std::snprintf(text, sizeof text,
                    "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#d93025\" "
                    "stroke-dasharray=\"4\"/>\n",
                    x(mark), x(mark), top + 8, y - 14);
      out << text;
    }
    return y;
  };
  double dollars = order.dollars.value_or(0), hours = order.time;
  for (const Prognosis& it : plan.prognoses()) {
    dollars = std::max(dollars, percentile(it.dollars, 0.9));
    hours = std::max(hours, percentile(it.hours, 0.9));
  }
  const double all = 2 * (24 + 24 + line * static_cast<double>(plan.prognoses().size())) + 40;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << left + width + 90 << "\" height=\""
      << all << "\" font-family=\"sans-serif\" font-size=\"13\">\n";
  const double next = panel(24, "Dollars: 10 % to 90 %, and the mean", 1.05 * dollars,
                            order.dollars.value_or(0), &Prognosis::dollars);
  panel(next + 12, "Hours until it ends; the line is the deadline", 1.05 * hours, order.time,
        &Prognosis::hours);
  // In two lines, as one of several regions is longer than the picture is wide.
  const std::string note = plan.assumption();
  const auto cut = note.find("; a move");
  for (const auto& [text, up] : {std::pair(note.substr(0, cut), 26.0),
                                 std::pair(cut == note.npos ? "" : note.substr(cut + 2), 10.0)})
    out << "<text x=\"10\" y=\"" << all - up << "\" font-size=\"11\">" << escaped(text)
        << "</text>\n";
  out << "</svg>\n";
  return out.flush().good();
}

}  // namespace spotter::command
