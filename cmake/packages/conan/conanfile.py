"""Packages the checkout that it lies in: conan create cmake/packages/conan --no-remote"""
from pathlib import Path

from conan import ConanFile
from conan.tools.cmake import CMake, cmake_layout
from conan.tools.files import copy


class Pith(ConanFile):
    name = "pith"
    version = "0.1.0"
    description = "Gradient compression for distributed training"
    license = "Apache-2.0"
    package_type = "header-library"
    settings = "os", "compiler", "build_type", "arch"
    generators = "CMakeToolchain"

    def export_sources(self):
        checkout = Path(self.recipe_folder).parents[2]
        for pattern in "CMakeLists.txt", "LICENSE", "cmake/*.cmake", "cmake/runtime/*", "include/*":
            copy(self, pattern, checkout, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")

    def package_id(self):
        self.info.clear()

    def package_info(self):
        # find_package reads pith's own config file, which has the components.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["share/cmake/pith"]
        self.cpp_info.bindirs = self.cpp_info.libdirs = []
