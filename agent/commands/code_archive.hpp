// The folder in which a person works as the code that machines run (job.yaml's `code.folder`): a
// commit of git's that has no parents, in a bundle, in S3. Its id names the content, so machines
// check it out as they do any other commit, and know that it is whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "agent/base/result.hpp"
#include "agent/config/job.hpp"
#include "agent/io/files.hpp"

namespace spotter::command {

struct CodeArchive {
  std::unique_ptr<io::ScratchFolder> scratch;  // has config::code_bundle and code_record
  std::string revision;                        // of the commit
  std::string origin;  // "commit 1234abcd and 2 changes", "no repository of git's"
  std::string record;  // the commit's message: origin in full, and which files differ from it
  std::uint64_t files = 0, bytes = 0;
  std::vector<std::string> doubts;  // sentences: files that may be secret, a pointer of Git LFS
};

inline constexpr std::uint64_t code_limit = 512U << 20;  // bytes of all files

// Files that git tracks or does not ignore, with those of submodules and of repositories within;
// without git's repository all files; both without what `.spotterignore` in the folder names, in
// the form of .gitignore, and without `besides`. Fails where git does, and above code_limit, with
// the largest that are in it.
Result<CodeArchive> archive_of(const fs::path& folder,
                               const std::vector<std::string>& besides = {});

// "12 files, 34.0 KiB, of ./ at commit 1234abcd and 2 changes"
std::string describe(const CodeArchive& archive, const fs::path& folder);

// Puts it where machines look for it; one that is there already is left. Says what it sent.
Result<void> send_code(const CodeArchive& archive, const config::Code& code);

}  // namespace spotter::command
