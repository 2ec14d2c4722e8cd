// The module of one level; each subject binds its functions.
#include "bind.hpp"
#include "shapes.hpp"

namespace core {
void bind_emissions(nanobind::module_& m);
void bind_lattice(nanobind::module_& m);
void bind_logarithms(nanobind::module_& m);
void bind_numbers(nanobind::module_& m);
void bind_perceptron(nanobind::module_& m);
void bind_vectors(nanobind::module_& m);
void bind_paths(nanobind::module_& m);
}  // namespace core

NB_MODULE(CORE_MODULE, m) {
  m.doc() = "The arithmetic of chains, compiled for one level of processor.";
  m.def("_wait_for_kernels", &core::Unlocked::wait_for_kernels);
  m.def("_forget_kernels", &core::Unlocked::forget_kernels);
  core::bind_numbers(m);
  core::bind_lattice(m);
  core::bind_emissions(m);
  core::bind_logarithms(m);
  core::bind_perceptron(m);
  core::bind_vectors(m);
  core::bind_paths(m);
}
