#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "agent/tools/sweep/results.hpp"

namespace spotter::command {
namespace {

using sweep::Summary;
using wire::CurvePoint;

constexpr double page_width = 1080, page_height = 560;
constexpr double left = 72, right = 690, top = 64, bottom = 500;  // of the plot on the page
constexpr double legend_left = 722, legend_right = 1056, legend_line = 38;
constexpr std::size_t most_named = 10;  // with a colour and a line of the legend
// A browser shows some megabytes of a drawing easily; nobody tells more curves apart.
constexpr std::size_t most_curves = 300;
constexpr std::size_t most_points = 30'000;
constexpr std::size_t longest_label = 48;
constexpr double log_from = 20;  // as many times as large is the largest loss as the smallest

// Told from one another, and from white and black, also by most who see fewer colours.
const std::array<const char*, most_named> colours = {"#1971c2", "#e8590c", "#2f9e44", "#ae3ec9",
                                                     "#c99700", "#0c98a6", "#e64980", "#7048e8",
                                                     "#a0522d", "#5c940d"};

// Light and dark as the reader's screen is.
constexpr const char* style = R"(<style>
text{font:13px system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#1f2328}
.title{font-size:17px;font-weight:600}
.quiet{fill:#59636e}.small{font-size:11.5px}.best{font-weight:600}
.page{fill:#ffffff}.grid{stroke:#e4e8ec}.axis{stroke:#8c959f}
path{fill:none;stroke-linejoin:round;stroke-linecap:round;stroke-width:1.8}
.rest{stroke:#818b98;stroke-width:1;stroke-opacity:.35}
circle.rest{fill:#818b98;fill-opacity:.35}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.quiet{fill:#9198a1}.page{fill:#0d1117}
.grid{stroke:#272e37}.axis{stroke:#656c76}}
</style>
)";

using Value = std::optional<double> (*)(const CurvePoint& point);
Value value_of(const std::string& metric) {
  if (metric == "accuracy") return [](const CurvePoint& point) { return point.accuracy; };
  return [](const CurvePoint& point) { return point.loss; };
}

std::string coordinate(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

std::string escaped(const std::string& text) {
  std::string safe;
  for (const char each : text) {
    if (each == '<')
      safe += "&lt;";
    else if (each == '&')
      safe += "&amp;";
    else if (each == '"')
      safe += "&quot;";
    else
      safe += static_cast<unsigned char>(each) < ' ' ? '?' : each;  // XML has no such characters
  }
  return safe;
}

std::string cut(const std::string& text) {
  if (text.size() <= longest_label) return text;
  std::size_t end = longest_label - 1;
  while ((text[end] & 0xC0) == 0x80) --end;  // not within a character
  return text.substr(0, end) + "…";
}

std::string element(const char* name, const std::string& attributes, const std::string& content) {
  return std::string("<") + name + " " + attributes + ">" + content + "</" + name + ">\n";
}

std::string text_at(double x, double y, const std::string& text, const std::string& more = "") {
  return element("text", "x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\"" + more,
                 escaped(text));
}

std::string line_from(double x1, double y1, double x2, double y2, const char* kind) {
  return "<line x1=\"" + coordinate(x1) + "\" y1=\"" + coordinate(y1) + "\" x2=\"" +
         coordinate(x2) + "\" y2=\"" + coordinate(y2) + "\" class=\"" + kind + "\"/>\n";
}

// 12000 -> 12k
std::string short_count(double value) {
  if (value >= 1e6) return short_number(value / 1e6, 4) + "M";
  return value >= 1e4 ? short_number(value / 1e3, 4) + "k" : short_number(value, 6);
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void widen() {
    if (high > low) return;
    const double some = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= some;
    high += some;
  }
};

// Round numbers: 1, 2 or 5 times a power of ten apart, six or so.
std::vector<double> linear_ticks(const Range& range) {
  const double rough = (range.high - range.low) / 6;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double apart = 10 * power;
  for (const double nice : {5, 2, 1})
    if (nice * power >= rough) apart = nice * power;
  std::vector<double> ticks;
  const double first = std::ceil(range.low / apart);
  for (int i = 0; i < 12 && (first + i) * apart <= range.high; ++i)
    ticks.push_back((first + i) * apart);
  return ticks;
}

std::vector<double> log_ticks(const Range& range) {
  const int first = static_cast<int>(std::floor(std::log10(range.low)));
  const int last = static_cast<int>(std::ceil(std::log10(range.high)));
  const int apart = 1 + (last - first) / 10;
  std::vector<double> ticks;
  for (int power = first; power <= last; power += apart) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double at = digit * std::pow(10, power);
      const bool wanted = digit == 1 || last - first <= 3;
      if (wanted && at >= range.low && at <= range.high) ticks.push_back(at);
    }
  }
  return ticks;
}

class Plot {
 public:
  Plot(const Summaries& sorted, std::string metric)
      : all_(sorted), metric_(std::move(metric)), value_(value_of(metric_)) {
    for (const Summary& summary : sorted) {
      const auto& points = summary.curve.points();
      if (std::any_of(points.begin(), points.end(),
                      [&](const CurvePoint& point) { return value_(point).has_value(); }))
        drawn_.push_back(&summary);
    }
    with_curve_ = drawn_.size();
    if (drawn_.size() > most_curves) drawn_.resize(most_curves);
    for (const Summary* summary : drawn_) measure(*summary);
    steps_.low = 0;
    steps_.widen();
    log_ = metric_ == "loss" && values_.low > 0 && values_.high / values_.low >= log_from;
    values_.widen();
    differing_ = differing(sorted);
  }

  bool empty() const { return drawn_.empty(); }

  std::string draw(const std::string& title) const {
    std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " +
                      coordinate(page_width) + " " + coordinate(page_height) + "\" width=\"" +
                      coordinate(page_width) + "\" height=\"" + coordinate(page_height) +
                      "\" role=\"img\">\n";
    svg += element("title", "", escaped(title + ": " + metric_));
    svg += style;
    svg += "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";
    svg += text_at(left, 34, title, " class=\"title\"") + axes();
    for (std::size_t i = drawn_.size(); i-- > 0;) svg += curve(i);  // the best on top
    return svg + legend() + "</svg>\n";
  }

 private:
  void measure(const Summary& summary) {
    for (const CurvePoint& point : summary.curve.points()) {
      const auto value = value_(point);
      if (!value) continue;
      steps_.add(static_cast<double>(point.step));
      values_.add(*value);
    }
  }
  double x(double step) const {
    return left + (step - steps_.low) / (steps_.high - steps_.low) * (right - left);
  }
  double y(double value) const {
    const auto scaled = [this](double of) { return log_ ? std::log(of) : of; };
    const double low = scaled(values_.low), high = scaled(values_.high);
    constexpr double margin = 12;
    return bottom - margin - (scaled(value) - low) / (high - low) * (bottom - top - 2 * margin);
  }

  std::string axes() const {
    std::string svg;
    for (const double tick : log_ ? log_ticks(values_) : linear_ticks(values_)) {
      svg += line_from(left, y(tick), right, y(tick), "grid");
      svg += text_at(left - 10, y(tick) + 4.5, short_number(tick),
                     " text-anchor=\"end\" class=\"quiet\"");
    }
    for (const double tick : linear_ticks(steps_)) {
      svg += line_from(x(tick), bottom, x(tick), bottom + 5, "axis");
      svg += text_at(x(tick), bottom + 21, short_count(tick),
                     " text-anchor=\"middle\" class=\"quiet\"");
    }
    svg += line_from(left, bottom, right, bottom, "axis");
    svg += text_at((left + right) / 2, bottom + 44, "step", " text-anchor=\"middle\"");
    return svg + text_at(left, top - 8, metric_ + (log_ ? " (logarithmic)" : ""));
  }

  std::string look(std::size_t rank) const {
    const std::string dashes =
        drawn_[rank]->state == Summary::State::Done ? "" : " stroke-dasharray=\"6 5\"";
    if (rank >= most_named) return "class=\"rest\"" + dashes;
    return "stroke=\"" + std::string(colours[rank]) + "\"" + dashes +
           (rank == 0 ? " style=\"stroke-width:3.4\"" : "");
  }

  std::string curve(std::size_t rank) const {
    wire::Curve thin = drawn_[rank]->curve;
    thin.thin(std::max<std::size_t>(60, most_points / drawn_.size()));
    std::string path;
    std::size_t points = 0;
    double last_x = 0, last_y = 0;
    for (const CurvePoint& point : thin.points()) {
      const auto value = value_(point);
      if (!value) continue;
      last_x = x(static_cast<double>(point.step));
      last_y = y(*value);
      path += (points++ == 0 ? "M" : "L") + coordinate(last_x) + " " + coordinate(last_y);
    }
    const std::string told = "<title>" + escaped(words(rank)) + "</title>";
    std::string svg = element("path", "d=\"" + path + "\" " + look(rank), told);
    if (points > 1 && rank >= most_named) return svg;
    const std::string fill =
        rank < most_named ? "fill=\"" + std::string(colours[rank]) + "\"" : "class=\"rest\"";
    return svg + element("circle",
                         "cx=\"" + coordinate(last_x) + "\" cy=\"" + coordinate(last_y) +
                             "\" r=\"" + (rank == 0 ? "4.5" : "3") + "\" " + fill,
                         told);
  }

  std::string parameters(const Summary& summary) const {
    std::string text;
    for (const std::string& name : differing_)
      text += (text.empty() ? "" : "  ") + name + "=" + parameter_text(summary, name);
    return text;
  }
  std::string last_value(const Summary& summary) const {
    const auto value = value_(summary.curve.last().value_or(CurvePoint{}));
    return value ? short_number(*value, 4) : "";
  }
  std::string words(std::size_t rank) const {
    const Summary& summary = *drawn_[rank];
    const std::string of = parameters(summary);
    return "experiment " + std::to_string(summary.index) + (of.empty() ? "" : ": " + of) + "; " +
           metric_ + " " + last_value(summary) + ", " + to_text(summary.state);
  }

  std::string legend() const {
    double at = top - 8;
    std::string svg =
        text_at(legend_right, at, "last " + metric_, " text-anchor=\"end\" class=\"quiet\"");
    at += 26 - legend_line;
    for (std::size_t rank = 0; rank < std::min(drawn_.size(), most_named); ++rank) {
      at += legend_line;
      const Summary& summary = *drawn_[rank];
      const std::string bold = rank == 0 ? " class=\"best\"" : "";
      svg += element(
          "path",
          "d=\"M" + coordinate(legend_left) + " " + coordinate(at - 4.5) + "h22\" " + look(rank),
          "");
      svg += text_at(legend_left + 32, at, "experiment " + std::to_string(summary.index), bold);
      svg += text_at(legend_right, at, last_value(summary), " text-anchor=\"end\"" + bold);
      svg += text_at(legend_left + 32, at + 16, cut(parameters(summary)), " class=\"quiet small\"");
    }
    return svg + notes(at);
  }

  std::string notes(double at) const {
    std::vector<std::string> lines;
    if (with_curve_ > most_named)
      lines.push_back(std::to_string(with_curve_ - most_named) + " more" +
                      (with_curve_ > drawn_.size()
                           ? ", of which " + std::to_string(drawn_.size() - most_named) + " in grey"
                           : ", in grey"));
    if (with_curve_ < all_.size())
      lines.push_back(std::to_string(all_.size() - with_curve_) + " without a curve");
    if (std::any_of(drawn_.begin(), drawn_.end(),
                    [](const Summary* summary) { return summary->state != Summary::State::Done; }))
      lines.emplace_back("dashed: not done");
    std::string svg;
    at += 18;
    for (const std::string& line : lines)
      svg += text_at(legend_left, at += 20, line, " class=\"quiet\"");
    return svg;
  }

  const Summaries& all_;
  std::string metric_;
  Value value_;
  std::vector<const Summary*> drawn_;
  std::size_t with_curve_ = 0;
  Range steps_, values_;
  bool log_ = false;
  std::vector<std::string> differing_;
};

}  // namespace

Result<std::string> to_svg(const Summaries& sorted, const SortOrder& order,
                           const std::string& title) {
  std::vector<std::string> wanted = {"accuracy", "loss"};
  if (order.metric == "loss") std::swap(wanted[0], wanted[1]);
  for (const std::string& metric : wanted) {
    const Plot plot(sorted, metric);
    if (!plot.empty()) return plot.draw(title);
  }
  return failure("there is no curve to plot: no experiment has said a loss or an accuracy");
}

}  // namespace spotter::command
