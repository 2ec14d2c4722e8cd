// exp and log of arrays, for tests of their accuracy.
#include "bind.hpp"
#include "simd.hpp"

namespace nb = nanobind;

namespace core {

namespace {

void exp_of(Span<const double> x, Span<double> out) {
  Int k = 0;
  for (; k + 8 <= x.size; k += 8) store(out.data + k, exp(load<8>(x.data + k)));
  for (; k < x.size; ++k) out[k] = exp(x[k]);
}

void log_of(Span<const double> x, Span<double> out) {
  for (Int k = 0; k < x.size; ++k) out[k] = log(x[k]);
}

void log1p_of(Span<const double> x, Span<double> out) {
  for (Int k = 0; k < x.size; ++k) out[k] = log1p(x[k]);
}

}  // namespace

void bind_numbers(nb::module_& m) {
  m.def("exp", &exp_of, nb::arg("x"), nb::arg("out"), "e^x of each number, for x <= 709 exact to a rounding.");
  m.def("log", &log_of, nb::arg("x"), nb::arg("out"), "Natural logarithm of each number.");
  m.def("log1p", &log1p_of, nb::arg("x"), nb::arg("out"), "log(1 + x) of each number.");
}

}  // namespace core
