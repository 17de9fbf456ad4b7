// The history of the spot capacity of one pool (an instance type in a zone), or of several as one:
// how long capacity was there each time, and how long it was absent. Pure; time is given, in hours.
#pragma once

namespace spotter::capacity {

// The belief before anything is seen: `count` spells of `hours` each.
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
  // Anything seen `half_life` hours ago weighs half of what is seen now.
  Spells(Prior available, Prior absent, double half_life);
  // Goes on from what was seen before: with capacity there at the last look, or not.
  Spells(Seen available, Seen absent, double half_life, bool now);

  // From now on there is capacity, or none. If that is new, a spell has ended.
  void see(bool available);
  // Capacity stayed for so many hours as it was seen last.
  void pass(double hours);

  // The ends of spells in an hour of such spells, on the average. The current spell counts with
  // what it has lasted: the longer an outage is, the longer another hour of it is likely.
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
