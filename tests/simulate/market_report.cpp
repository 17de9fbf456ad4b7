// The markets' table: on the terminal, as JSON, as a picture.
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/simulate/market.hpp"

namespace spotter::simulate {
namespace {

// The mean, and half the width of its 95 % interval (normal: 1.96 standard errors).
struct Mean {
  double value = 0;
  double within = 0;
};

class Sample {
 public:
  void add(double one) {
    ++count_;
    const double before = mean_;
    mean_ += (one - mean_) / count_;
    squares_ += (one - before) * (one - mean_);
  }
  Mean mean() const {
    return {mean_, count_ > 1 ? 1.96 * std::sqrt(squares_ / (count_ - 1) / count_) : 0};
  }

 private:
  double count_ = 0, mean_ = 0, squares_ = 0;
};

constexpr std::array kNames = {"oracle", "spotter", "with fence", "periodic", "aws-script"};

struct Row {
  std::string trace;
  std::string policy;
  Sample hours, cost, rates, goodput, steps_repeated, of_oracle;

  void add(const Outcome& outcome, const Outcome& oracle) {
    hours.add(outcome.hours);
    cost.add(outcome.cost);
    rates.add(outcome.rates);
    goodput.add(outcome.goodput);
    steps_repeated.add(outcome.steps_repeated);
    of_oracle.add(outcome.goodput / oracle.goodput);
  }
};

// Long enough for the slowest policy; a policy that needs longer says so.
constexpr double kWeeks = 8 * 7 * 24 * 3600.0;

std::vector<Row> play(const Trace& trace, std::size_t seeds, const MarketModel& model) {
  std::vector<Row> rows;
  for (const char* name : kNames) rows.push_back({.trace = trace.name, .policy = name});
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Market market = draw_market(trace, seed, model, kWeeks);
    const Outcome oracle = play_policy(MarketPolicy::Oracle, market, model);
    rows[0].add(oracle, oracle);
    rows[1].add(play_spotter(market, model, seed, false), oracle);
    rows[2].add(play_spotter(market, model, seed, true), oracle);
    rows[3].add(play_policy(MarketPolicy::Periodic, market, model), oracle);
    rows[4].add(play_policy(MarketPolicy::Aws, market, model), oracle);
  }
  return rows;
}

void print(const std::vector<Row>& rows) {
  std::printf("%-8s %-11s %16s %16s %17s %9s %20s\n", "trace", "policy", "hours", "dollars",
              "goodput %", "of oracle", "seconds repeated");
  for (const Row& row : rows) {
    const Mean hours = row.hours.mean(), cost = row.cost.mean(), goodput = row.goodput.mean(),
               repeated = row.steps_repeated.mean();
    std::printf("%-8s %-11s %8.1f +- %4.1f %8.1f +- %4.1f %9.2f +- %4.2f %8.2f%% %11.0f +- %5.0f\n",
                row.trace.c_str(), row.policy.c_str(), hours.value, hours.within, cost.value,
                cost.within, 100 * goodput.value, 100 * goodput.within,
                100 * row.of_oracle.mean().value, repeated.value, repeated.within);
  }
}

nlohmann::json to_json(const std::vector<Row>& rows, std::size_t seeds) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) {
    nlohmann::json it = {{"trace", row.trace}, {"policy", row.policy}, {"seeds", seeds}};
    const auto put = [&](const char* name, const Mean& mean) {
      it[name] = mean.value;
      it[std::string(name) + "_within"] = mean.within;
    };
    put("hours", row.hours.mean());
    put("cost", row.cost.mean());
    put("rates", row.rates.mean());
    put("goodput", row.goodput.mean());
    put("steps_repeated", row.steps_repeated.mean());
    put("of_oracle", row.of_oracle.mean());
    list.push_back(it);
  }
  return list;
}

// Bars of goodput, from 60 % up, each with its interval.
void draw(const std::vector<Row>& rows, const std::string& file) {
  constexpr std::array kColours = {"#9aa0a6", "#1a73e8", "#34a853", "#f9ab00", "#d93025"};
  constexpr double kWidth = 560, kLeft = 150, kFrom = 0.6, kLine = 22;
  const auto x = [&](double share) {
    return kLeft + kWidth * std::max(0.0, share - kFrom) / (1 - kFrom);
  };
  std::ofstream out(file);
  char text[512];
  std::snprintf(text, sizeof text,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                "font-family=\"sans-serif\" font-size=\"12\">\n<text x=\"10\" y=\"20\">Goodput: "
                "share of paid time that became progress (95 %% interval)</text>\n",
                kLeft + kWidth + 70, 50 + kLine * static_cast<double>(rows.size()));
  out << text;
  double y = 34;
  for (std::size_t i = 0; i < rows.size(); ++i, y += kLine) {
    const Mean mean = rows[i].goodput.mean();
    std::snprintf(text, sizeof text,
                  "<text x=\"10\" y=\"%.0f\">%s %s</text><rect x=\"%.0f\" y=\"%.0f\" "
                  "width=\"%.1f\" height=\"16\" fill=\"%s\"/><line x1=\"%.1f\" x2=\"%.1f\" "
                  "y1=\"%.0f\" y2=\"%.0f\" stroke=\"black\"/><text x=\"%.1f\" y=\"%.0f\">%.2f "
                  "%%</text>\n",
                  y + 12, rows[i].trace.c_str(), rows[i].policy.c_str(), kLeft, y,
                  x(mean.value) - kLeft, kColours[i % kColours.size()], x(mean.value - mean.within),
                  x(mean.value + mean.within), y + 8, y + 8, x(mean.value + mean.within) + 6,
                  y + 12, 100 * mean.value);
    out << text;
  }
  out << "</svg>\n";
}

// The table proves the replay wrong unless nobody beats the oracle, and no other policy Spotter.
bool is_in_order(const std::vector<Row>& rows) {
  const double oracle = rows[0].goodput.mean().value;
  const auto fits = [&](const Row& row) {
    const double spotter = row.goodput.mean().value;
    return oracle >= spotter && spotter >= rows[3].goodput.mean().value &&
           spotter >= rows[4].goodput.mean().value;
  };
  return fits(rows[1]) && fits(rows[2]);
}

}  // namespace

int replay_markets(const MarketOptions& options) {
  MarketModel model;
  model.dollars = options.dollars;
  std::vector<Row> rows;
  bool in_order = true;
  for (const std::string& file : options.traces) {
    const auto played = play(load_trace(file), options.seeds, model);
    in_order = in_order && is_in_order(played);
    rows.insert(rows.end(), played.begin(), played.end());
  }
  print(rows);
  if (!options.json.empty()) {
    std::ofstream(options.json) << to_json(rows, options.seeds).dump(2) << "\n";
  }
  if (!options.svg.empty()) draw(rows, options.svg);
  if (!in_order) std::printf("not in order: oracle >= spotter >= periodic, aws-script\n");
  return in_order ? 0 : 1;
}

}  // namespace spotter::simulate
