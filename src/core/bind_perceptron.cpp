// Perceptron, passive-aggressive and AROW.
#include "bind.hpp"
#include "perceptron.hpp"

namespace nb = nanobind;

namespace core {

static bool read(PyObject* object, UpdateRule& r) {
  return read_tuple(object, r.algorithm, r.type, r.c, r.error_sensitive, r.averaging, r.gamma);
}
static bool read(PyObject* object, Learner& l) {
  return read_tuple(object, l.rows, l.blank, l.first, l.last, l.exists, l.weights, l.slots, l.second, l.delta, l.edge);
}
static bool read(PyObject* object, Scratch& s) {
  return read_tuple(object, s.lattice, s.path, s.touched, s.amount);
}

}  // namespace core

namespace nanobind::detail {

CORE_RECORD(UpdateRule, "chainfold.training.perceptron.UpdateRule")
CORE_RECORD(Learner, "chainfold.training.perceptron.Learner")
CORE_RECORD(Scratch, "chainfold.training.perceptron.Scratch")

}  // namespace nanobind::detail

namespace core {

namespace {

std::tuple<int, Int, double> learn_pieces(const Block& block, const BlockRows& block_rows, Span<const int64_t> begins,
                                          Span<const int64_t> order, bool closed, const UpdateRule& rule,
                                          const Learner& learner, const Scratch& scratch, Int seen) {
  Int fault = 0;
  double loss = 0.0;
  const int status = with_shape(learner.blank.size, [&](auto shape) {
    return learn(shape, block, block_rows, begins, order, closed, rule, learner, scratch, seen, fault, loss);
  });
  return {status, fault, loss};
}

}  // namespace

void bind_perceptron(nb::module_& m) {
  using Free = nb::call_guard<Unlocked>;
  using nb::arg;
  m.attr("PERCEPTRON") = Int(PERCEPTRON);
  m.attr("PASSIVE_AGGRESSIVE") = Int(PASSIVE_AGGRESSIVE);
  m.attr("AROW") = Int(AROW);
  m.def("learn_pieces", &learn_pieces, arg("block"), arg("block_rows"), arg("begins"), arg("order"), arg("closed"),
        arg("rule"), arg("learner"), arg("scratch"), arg("seen"), Free(),
        "Train on pieces of a block, in an order; returns (status, the faulty position, the sum of the losses).");
}

}  // namespace core
