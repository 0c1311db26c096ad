# Builds and installs the optional compiled library pith::runtime without CMake, for C programs and Makefiles.
#
#   make -j2                          compiles build/runtime/libpith_runtime.a, and libpith_runtime_mpi.a if mpicxx is found
#   make ELEMENTS=float               ... only for gradients of floats, in half of the time
#   make MPICXX=                      ... without MPI
#   make CXXFLAGS="-O3 -march=native -DPITH_NO_ISA_DISPATCH"   ... for the instruction set of this machine only
#   make install PREFIX=DIR           installs the headers in DIR/include, the libraries and pkg-config files in DIR/lib
#
#   cc engine.c $(pkg-config --cflags --libs pith_runtime_mpi)
CXXFLAGS ?= -O3
ELEMENTS ?= float bfloat16
MPICXX ?= $(shell command -v mpicxx)
PREFIX ?= /usr/local
BUILD ?= build/runtime

ifneq ($(filter-out float bfloat16,$(ELEMENTS))$(if $(filter float,$(ELEMENTS)),,x),)
$(error ELEMENTS must be float, or float and bfloat16, got "$(ELEMENTS)")
endif

source := cmake/runtime
definitions := -DPITH_RUNTIME $(if $(filter bfloat16,$(ELEMENTS)),,-DPITH_RUNTIME_WITHOUT_BFLOAT16)
compile = -std=c++20 -fPIC -pthread $(definitions) -Iinclude $(CXXFLAGS) -MMD -MP -c -o $@ $<
left_out := mpi $(if $(filter bfloat16,$(ELEMENTS)),,%_bfloat16)
names := $(filter-out $(left_out),$(basename $(notdir $(wildcard $(source)/*.cpp))))
libraries := pith_runtime $(if $(MPICXX),pith_runtime_mpi)
archives := $(libraries:%=$(BUILD)/lib%.a)
version := $(shell sed -n 's/^\#define PITH_VERSION_[A-Z]* //p' include/pith/version.hpp | paste -sd.)

all: $(archives)

$(BUILD)/libpith_runtime.a: $(names:%=$(BUILD)/%.o)
$(BUILD)/libpith_runtime_mpi.a: $(BUILD)/mpi.o
$(archives):
	rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/mpi.o: $(source)/mpi.cpp
	@mkdir -p $(@D)
	$(MPICXX) -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX $(compile)
$(BUILD)/%.o: $(source)/%.cpp
	@mkdir -p $(@D)
	$(CXX) $(compile)

# Other elements or flags make other objects.
settings := $(CXX) $(MPICXX) $(CXXFLAGS) $(definitions)
ifneq ($(settings),$(shell cat $(BUILD)/settings 2>/dev/null))
$(shell mkdir -p $(BUILD) && rm -f $(BUILD)/*.o && echo '$(settings)' >$(BUILD)/settings)
endif

install: all
	mkdir -p $(PREFIX)/include $(PREFIX)/lib/pkgconfig
	cp -R include/pith $(PREFIX)/include
	cp $(archives) $(PREFIX)/lib
	$(call pkg_config,pith_runtime,-lstdc++ -lm -pthread)
	$(if $(MPICXX),$(call pkg_config,pith_runtime_mpi,,pith_runtime))

# $(call pkg_config,name,libraries,required package)
define pkg_config
printf '%s\n' 'prefix=$(abspath $(PREFIX))' 'Name: $(1)' 'Description: compiled gradient compression' \
  'Version: $(version)' 'Requires: $(3)' 'Cflags: -I$${prefix}/include $(definitions)' \
  'Libs: -L$${prefix}/lib -l$(1) $(2)' >$(PREFIX)/lib/pkgconfig/$(1).pc
endef

clean:
	rm -rf $(BUILD)

-include $(wildcard $(BUILD)/*.d)
.PHONY: all install clean
