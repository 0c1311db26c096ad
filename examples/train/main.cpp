// examples/train/main.cpp — the main job: one network, trained by four ranks under ten codecs.
#include "command.hpp"

int main(int argc, char** argv) { return train::command(argc, argv, stdout, stderr); }
