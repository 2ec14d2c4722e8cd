// Vectors of the optimisers.
#include "bind.hpp"
#include "vectors.hpp"

namespace nb = nanobind;

namespace core {

void bind_vectors(nb::module_& m) {
  using Free = nb::call_guard<Unlocked>;
  using nb::arg;
  m.attr("CHUNK") = CHUNK;
  m.def("penalise", &penalise, arg("first"), arg("last"), arg("sums"), arg("g"), arg("observed"), arg("x"), arg("c2"),
        Free(), "g ← g - observed + 2 · c2 · x. Sums: x·x, observed·x.");
  m.def("step_along", &step_along, arg("first"), arg("last"), arg("sums"), arg("trial"), arg("x"), arg("step"),
        arg("d"), Free(), "trial ← x + step · d. No sums.");
  m.def("step_within", &step_within, arg("first"), arg("last"), arg("sums"), arg("trial"), arg("x"), arg("step"),
        arg("d"), arg("downhill"), Free(),
        "trial ← x + step · d, zero where that leaves the orthant. Sums: (trial - x)·downhill, ‖trial‖₁.");
  m.def("keep", &keep, arg("first"), arg("last"), arg("sums"), arg("kept"), arg("g"), arg("d"), Free(),
        "kept ← g. Sum: g·d.");
  m.def("arrive", &arrive, arg("first"), arg("last"), arg("sums"), arg("x"), arg("x_before"), arg("g"),
        arg("g_before"), arg("c1"), arg("downhill"), arg("pairs"), arg("new_pair"), Free(),
        "Take in a pair, if it is not -1, and the (pseudo-)gradient. Sums: four, and two for each s and each y.");
  m.def("combine", &combine, arg("first"), arg("last"), arg("sums"), arg("d"), arg("scale"), arg("downhill"),
        arg("shares"), arg("pairs"), arg("align"), Free(),
        "d ← scale · downhill + Σ shares[k] · pairs[:, k], aligned if asked. Sums: d·downhill, d·d.");
  m.def("sgd", &sgd, arg("first"), arg("last"), arg("sums"), arg("x"), arg("g"), arg("shrink"), arg("total"),
        arg("rate"), arg("steps"), arg("moments"), Free(),
        "x ← x - rate · g, with shrink · x added to g, and g to the total. Sums, before the step: g·g, x·x.");
  m.def("adagrad", &adagrad, arg("first"), arg("last"), arg("sums"), arg("x"), arg("g"), arg("shrink"), arg("total"),
        arg("rate"), arg("steps"), arg("moments"), Free(), "`sgd` with q ← q + g² and x ← x - rate · g / (√q + ε).");
  m.def("adam", &adam, arg("first"), arg("last"), arg("sums"), arg("x"), arg("g"), arg("shrink"), arg("total"),
        arg("rate"), arg("steps"), arg("moments"), Free(),
        "`sgd` with p and q the means of g and g², and x ← x - rate · p̂ / (√q̂ + ε).");
}

}  // namespace core
