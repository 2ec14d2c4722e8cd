// The paper's algorithms in the log domain.
#include "bind.hpp"
#include "logarithms.hpp"

namespace nb = nanobind;

namespace core {

namespace {

std::pair<int, Int> carry_expectations_of(const Block& block, Matrix<const double> state, Matrix<const double> edge,
                                          const Features& features, Span<double> z, Cube<double> h, Cube<int8_t> sign) {
  Int fault = 0;
  const int status = carry_expectations(block, {state, edge}, features, z, h, sign, fault);
  return {status, fault};
}

std::pair<int, Int> kernels_and_forward_of(const Block& block, Matrix<const double> state, Matrix<const double> edge,
                                           Cube<double> u, Span<const double> entry, Matrix<double> alpha) {
  Int fault = 0;
  const int status = kernels_and_forward(block, {state, edge}, u, entry.data, alpha, fault);
  return {status, fault};
}

void local_kernels_of(const Block& block, Matrix<const double> state, Matrix<const double> edge, Cube<double> u) {
  local_kernels(block, {state, edge}, u);
}

void terminate_of(const Block& block, Cube<const double> u, Span<const double> entry, Matrix<const double> alpha,
                  Matrix<const double> beta, const Features& features, Span<double> gradient, Span<int8_t> sign) {
  terminate(block, u, entry.data, alpha, beta, features, gradient, sign);
}

}  // namespace

void bind_logarithms(nb::module_& m) {
  using Free = nb::call_guard<Unlocked>;
  using nb::arg;
  m.def("log_total", &log_total, arg("z"), Free(), "⊕ of the logarithms in a vector.");
  m.def("quotients", &quotients, arg("logs"), arg("signs"), arg("log_z"), arg("out"), Free(),
        "Expected counts ∇_m Z / Z; row m of the signed logarithms has ln ∇_m Z as its ⊕.");
  m.def("carry_expectations", &carry_expectations_of, arg("block"), arg("state"), arg("edge"), arg("features"),
        arg("z"), arg("h"), arg("sign"), Free(),
        "Algorithm 2 over a block, z, h and sign being carried to its end; returns (status, position of the fault).");
  m.def("kernels_and_forward", &kernels_and_forward_of, arg("block"), arg("state"), arg("edge"), arg("u"), arg("entry"),
        arg("alpha"), Free(),
        "Local kernels and forward vectors of a block in logarithms; returns (status, position of the fault).");
  m.def("local_kernels", &local_kernels_of, arg("block"), arg("state"), arg("edge"), arg("u"), Free(),
        "Local kernels of a block in logarithms: u[t, i, j] = u_t(i, j).");
  m.def("backward_vectors", &backward_vectors, arg("u"), arg("beta"), Free(),
        "Backward vectors of a block in logarithms from its local kernels; the last row of beta is given.");
  m.def("terminate", &terminate_of, arg("block"), arg("u"), arg("entry"), arg("alpha"), arg("beta"), arg("features"),
        arg("gradient"), arg("sign"), Free(), "Add a block's share of ln ∇Z: the termination of Algorithm 1.");
}

}  // namespace core
