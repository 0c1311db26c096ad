#!/usr/bin/env python3
"""Every method has a line in the registry: registered.py INCLUDE

A header of a folder of methods must have a class that a line of include/pith/registry constructs, unless the header is
listed below as a part of methods or as a codec that no text can describe.
"""
import pathlib
import re
import sys

FOLDERS = ["quantize", "sparsify", "transform", "lowrank", "vector", "coding", "feedback"]
PARTS = {
    "quantize": {"majority", "quantizer_rule", "scalar_quantizer"},
    "sparsify": {"large_entries", "select", "sparsifier", "strata", "threshold_estimator"},
    "transform": {"tile_transform"},
    "coding": {"packed_indices"},
    "feedback": {"any_feedback", "clipping", "feedback"},
    # Codebooks, bases and their parts: a text cannot contain learned vectors.
    "vector": {"blas_product", "codebook", "conv_shape", "cublas_product", "eigen3_solver", "eigen_solver",
               "hypersphere_quantizer", "k_means", "matrix_product", "pca", "pca_basis", "pca_fit", "product_quantizer",
               "slice_order", "slice_samples"},
}
FORMS_OF_OTHER_NAMES = {"error_feedback": "ef"}


def main():
    root = pathlib.Path(sys.argv[1]) / "pith"
    registry = "".join(p.read_text() for p in sorted((root / "registry").rglob("*.hpp")))
    named = set(re.findall(r'(?:method\(|listing\{)\s*"(\w+)', registry))
    failed = False
    for folder in FOLDERS:
        headers = {p.stem for p in (root / folder).glob("*.hpp")}
        for stem in sorted(PARTS.get(folder, set()) - headers):
            print(f"{folder}/{stem}.hpp: listed here, but there is no such header")
            failed = True
        for stem in sorted(headers - PARTS.get(folder, set())):
            if FORMS_OF_OTHER_NAMES.get(stem, stem) not in named:
                print(f"{folder}/{stem}.hpp: no line in include/pith/registry constructs a {stem}")
                failed = True
    print(f"{len(named)} methods have a line")
    sys.exit(failed)


main()
