#!/usr/bin/env python3
"""Every method has a line in the registry, and all that a line does not generate: registered.py INCLUDE

A header of a folder of methods must have a class that a line of include/pith/registry constructs, unless the header is
listed below as a part of methods or as a codec that no text can describe. The pages, decoders and tests below must name
the method of each line.
"""
import pathlib
import re
import sys

FOLDERS = ["adaptor", "collective", "feedback", "lowrank", "quantize", "sparsify", "transform", "vector_quantize"]
PARTS = {
    "adaptor": {"checked"},
    "collective": {"sharding", "tensor_parts"},
    "quantize": {"majority", "quantizer_rule", "scalar_quantizer"},
    "sparsify": {"elias_fano", "large_entries", "packed_indices", "select", "sparsifier", "threshold_estimator"},
    "transform": {"tile_transform"},
    "feedback": {"any_feedback", "clipping", "feedback"},
    # Codebooks, bases and their parts: a text cannot contain learned vectors.
    "vector_quantize": {"blas_product", "codebook", "cublas_product", "eigen3_solver", "eigen_solver",
                        "hypersphere_quantizer", "k_means", "matrix_product", "pca", "pca_basis", "pca_fit",
                        "product_quantizer", "slice_order", "slice_samples"},
}
FORMS_OF_OTHER_NAMES = {"error_feedback": "ef", "mx": "mxfp8"}
NAMED_IN = {
    "stages": ["docs/catalogue.md", "docs/wire_format.md", "benchmarks/catalogue.hpp", "tests/device",
               "tests/wire/make_golden.cpp", "tests/wire/scalar_decoder.hpp", "tests/data/frozen"],
    "exchanges": ["docs/catalogue.md", "docs/wire_format.md", "tests/device", "tests/data/frozen"],
    "policies": ["docs/composing.md", "tests/device", "tests/data/frozen"],
}


def names_in(header):
    return set(re.findall(r'(?:method\(|listing\{)\s*"(\w+)', header.read_text()))


def text_of(path):
    return "".join(p.read_text() for p in (sorted(path.iterdir()) if path.is_dir() else [path]))


def unregistered(folders, named):
    """A line for each header without a method, and for each listed part without a header."""
    for folder in FOLDERS:
        headers = {p.stem for p in (folders / folder).glob("*.hpp")}
        for stem in sorted(PARTS.get(folder, set()) - headers):
            yield f"{folder}/{stem}.hpp: listed here, but there is no such header"
        for stem in sorted(headers - PARTS.get(folder, set())):
            if FORMS_OF_OTHER_NAMES.get(stem, stem) not in named:
                yield f"{folder}/{stem}.hpp: no line in include/pith/registry constructs a {stem}"


def unnamed(root, methods):
    """A line for each file that must name a method and does not."""
    for kind, places in NAMED_IN.items():
        for place in places:
            words = set(re.findall(r"\w+", text_of(root / place)))
            for name in sorted(methods[kind] - words):
                yield f"{place}: must name {name}, which has a line in include/pith/registry/{kind}.hpp"


def main():
    include = pathlib.Path(sys.argv[1])
    methods = {p.stem: names_in(p) for p in (include / "pith/registry").rglob("*.hpp")}
    named = set().union(*methods.values())
    missing = [*unregistered(include / "pith", named), *unnamed(include.parent, methods)]
    print("\n".join([*missing, f"{len(named)} methods have a line"]))
    sys.exit(bool(missing))


main()
