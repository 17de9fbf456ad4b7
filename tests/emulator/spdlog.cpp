// The sink of the emulator's log, in addition to what agent/io/spdlog.cpp has, and for its reason.
#include <spdlog/details/file_helper-inl.h>
#include <spdlog/sinks/base_sink-inl.h>
#include <spdlog/sinks/basic_file_sink-inl.h>

#include <mutex>

template class spdlog::sinks::base_sink<std::mutex>;
template class spdlog::sinks::basic_file_sink<std::mutex>;
