// What was seen of the spot capacity of one pool (an instance type in a zone), or of several as
// one: for how long there was capacity at a time, and for how long there was none. Pure; time is
// given, in hours.
#pragma once

namespace spotter::capacity {

// What is believed before anything is seen: `count` spells of `hours` each.
struct Prior {
  double count = 1;
  double hours = 1;
};

// Ends of spells, and hours in them.
struct Seen {
  double ends = 0;
  double hours = 0;
  bool operator==(const Seen&) const = default;
};

class Spells {
 public:
  // What was seen `half_life` hours ago weighs half of what is seen now.
  Spells(Prior available, Prior absent, double half_life);
  // Goes on from what was seen before: with capacity there at the last look, or not.
  Spells(Seen available, Seen absent, double half_life, bool now);

  // From now on there is capacity, or none. If that is new, a spell has ended.
  void see(bool available);
  // For so many hours it stayed as it was seen last.
  void pass(double hours);

  // How often a spell ends in an hour of such spells, on the average. The spell that goes on counts
  // with what it has lasted: the longer an outage is, the longer another hour of it is likely.
  double losses_an_hour() const { return available_.ends / available_.hours; }
  double returns_an_hour() const { return absent_.ends / absent_.hours; }
  const Seen& available() const { return available_; }
  const Seen& absent() const { return absent_; }

 private:
  Seen available_, absent_;
  double half_life_;
  bool now_ = false;
  bool known_ = false;
};

}  // namespace spotter::capacity
