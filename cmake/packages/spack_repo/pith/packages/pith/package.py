"""Installs a checkout: spack repo add cmake/packages/spack_repo/pith && spack dev-build pith@0.1.0"""
from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Pith(CMakePackage):
    """Gradient compression for distributed training, header-only."""

    license("Apache-2.0")
    version("0.1.0")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")

    # The CMake files of the package; tests/packages/files.py compares them with an installation.
    sanity_check_is_file = [
        "share/cmake/pith/FindNCCL.cmake",
        "share/cmake/pith/pith-components.cmake",
        "share/cmake/pith/pith-config-version.cmake",
        "share/cmake/pith/pith-config.cmake",
        "share/cmake/pith/pith-cuda-toolkit.cmake",
        "share/cmake/pith/pith-targets.cmake",
    ]
    sanity_check_is_dir = ["include/pith", "share/cmake/pith/runtime"]
