// A guard beside scripts that write in many ways: what their next start finds. Real files, real
// inotify.
#include <fcntl.h>

#include <fstream>
#include <iterator>

#include "tests/guard/lives.hpp"

namespace spotter::guard {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Keras: ModelCheckpoint, its best, BackupAndRestore.
TEST_F(Lives, ThreeNamesWrittenOverInPlaceAreOfOneMoment) {
  Life life(files("*.h5"));
  for (const char* epoch : {"1", "2", "3"}) {
    for (const char* name : {"epoch.h5", "best.h5", "backup.h5"})
      write(name, hdf5(std::string(name) + epoch));
    life.wait_for(3);
  }
  write("epoch.h5", hdf5("epoch.h5"
                         "4"));
  write("best.h5", hdf5("best.h5"
                        "4")
                       .substr(0, 60));
  life.died = true;
  life.end(End::Killed);
  for (const char* name : {"epoch.h5", "best.h5", "backup.h5"})
    EXPECT_EQ(read(name), hdf5(name + std::string("3")));
  EXPECT_EQ(set_aside(), 1U) << "together";
}

// A run's title, or a Latin-1 name of a folder, is in its files' names.
TEST_F(Lives, NamesOfAnyBytesAreOfOneMoment) {
  const Names names = {
      "last.pt",           "last \"best\".pt",           "a\\b.pt", "two\nlines.pt", "caf\xe9.pt",
      "mod\xe8le/last.pt", std::string(252, 'x') + ".pt"};
  const auto save = [&](const std::string& content) {
    for (const std::string& name : names) write(name, zip(content + name));
  };
  for (const char* content : {"1", "2", "3"}) {
    Life life(files("*.pt"));
    save(content);
    life.wait_for(names.size());
    write("last.pt", zip("half"));
    write("caf\xe9.pt", zip("half").substr(0, 40));
    write("two\nlines.pt", zip("half"));
    fs::remove(path("last \"best\".pt"));
    life.died = true;
    life.end(End::Killed);
    for (const std::string& name : names) EXPECT_EQ(read(name), zip(content + name)) << name;
  }
}

TEST_F(Lives, WeightsMayLieAnywhereInAFolder) {
  Life life(folders());
  for (const char* step : {"1", "2"}) {
    const std::string folder = "checkpoint-" + std::string(step);
    write(folder + "/0_Transformer/model.safetensors", safetensors("weights"));
    write(folder + "/training_args.bin", zip("arguments"));
    life.wait_for(1);
  }
  life.end(End::Killed);
  EXPECT_EQ(there(), (Names{"checkpoint-1", "checkpoint-2"}));
  EXPECT_EQ(set_aside(), 0U);
}

TEST_F(Lives, AFolderBehindWhichTheNextIsBegunIsFinished) {
  Life life(folders());
  write("checkpoint-1/model.safetensors", safetensors("one"));
  life.look();
  write("checkpoint-2/model.safetensors", safetensors("two"));
  life.look();  // the new folder
  life.look();
  EXPECT_EQ(life.finished(), std::vector<std::string>{"checkpoint-1"});
}

TEST_F(Lives, WhatWasWholeBeforeTheKillIsKeptWithoutARest) {
  Life life(folders());
  write("checkpoint-1/model.safetensors", safetensors("one"));
  write("checkpoint-1/optimizer.pt", zip("one"));
  life.wait_for(1);
  for (const char* folder : {"checkpoint-2", "checkpoint-3"}) {
    write(std::string(folder) + "/model.safetensors", safetensors("more"));
    write(std::string(folder) + "/optimizer.pt", zip("more"));
    life.look();
    life.look();
  }
  life.end(End::Killed);
  EXPECT_EQ(there(), (Names{"checkpoint-1", "checkpoint-2", "checkpoint-3"}));
  EXPECT_EQ(settle(folders()).newest, 3U);
}

TEST_F(Lives, ASetThatLacksAFileIsPutAwayWhole) {
  Life life(files("*.pt *.json"));
  for (const char* step : {"10", "20"}) {
    for (const char* name : {"model_", "meta_", "optim_"})
      write(name + std::string(step) + (name[2] == 't' && name[0] == 'm' ? ".json" : ".pt"),
            name[2] == 't' && name[0] == 'm' ? "{}" : zip(name));
    life.wait_for(3);
  }
  write("model_30.pt", zip("model_"));
  write("meta_30.json", "{}");
  life.look();
  life.end(End::Killed);
  EXPECT_FALSE(exists("model_30.pt"));
  EXPECT_FALSE(exists("meta_30.json"));
  EXPECT_TRUE(exists("model_20.pt"));
  EXPECT_EQ(set_aside(), 1U);
}

TEST_F(Lives, WhatNamesTheNewestNamesOneThatIsThere) {
  const std::pair<const char*, const char*> forms[] = {{"latest", "global_step"},
                                                       {"latest_checkpointed_iteration.txt", ""}};
  for (const auto& [tracker, prefix] : forms) {
    fs::remove_all(path(""));
    fs::remove_all(mount_ / ".spotter");
    fs::create_directories(path(""));
    fs::create_directories(mount_ / ".spotter");
    const auto name = [&](int step) {
      return (*prefix ? prefix : "iter_0000") + std::to_string(step);
    };
    const auto save = [&](int step, const std::string& bytes) {
      write(name(step) + "/mp_rank_00/model.pt", bytes);
      write(tracker, (*prefix ? name(step) : std::to_string(step)));
    };
    {
      Life life(folders());
      save(100, zip("one"));
      life.wait_for(1);
      save(200, zip("two"));
      life.wait_for(1);
      life.rest(1500);  // the tracker, a moment later
      save(300, zip("three").substr(0, 20));
    }  // the machine is lost
    settle(folders());
    EXPECT_EQ(there(), (Names{name(100), name(200), tracker}));
    EXPECT_EQ(read(tracker), *prefix ? name(200) : "200");
  }
}

TEST_F(Lives, ALinkToTheNewestIsPutBack) {
  {
    Life life(files("*.ckpt"));
    write("epoch=1-step=10.ckpt", zip("one"));
    fs::create_symlink("epoch=1-step=10.ckpt", path("last.ckpt"));
    life.wait_for(1);
    write("epoch=2-step=20.ckpt", std::string(500, '\0'));
    fs::remove(path("last.ckpt"));
    fs::create_symlink("epoch=2-step=20.ckpt", path("last.ckpt"));
  }
  settle(files("*.ckpt"));
  EXPECT_EQ(fs::read_symlink(path("last.ckpt")), "epoch=1-step=10.ckpt");
  EXPECT_FALSE(exists("epoch=2-step=20.ckpt"));
}

TEST_F(Lives, AStartThatFailsTriesTheOneBeforeAndComesBack) {
  const auto run = [this](End end, bool progressed) {
    Life life(files("last.bin"));
    return life.end(end, progressed);
  };
  {
    Life life(files("last.bin"));
    for (const char* content : {"one", "two"}) {
      write("last.bin", content);
      life.wait_for(1);
    }
    EXPECT_FALSE(life.end(End::Killed));
  }
  EXPECT_FALSE(run(End::Failed, true)) << "it had progressed";
  EXPECT_EQ(read("last.bin"), "two");
  EXPECT_TRUE(run(End::Failed, false));
  EXPECT_EQ(read("last.bin"), "one") << "the one before is tried";
  EXPECT_FALSE(run(End::Failed, false));
  EXPECT_EQ(read("last.bin"), "two") << "it was not the checkpoint";
  EXPECT_FALSE(run(End::Failed, false)) << "once";
  EXPECT_EQ(read("last.bin"), "two");
}

TEST_F(Lives, WhatTheScriptRemovedIsNotPutBackWhenItFinished) {
  Life life(files("*.bin"));
  write("last.bin", "one");
  life.wait_for(1);
  remove("last.bin");
  life.end(End::Finished);
  EXPECT_FALSE(exists("last.bin"));
  EXPECT_FALSE(exists("last.bin"));
}

TEST_F(Lives, WhatIsRemovedBeforeTheNextIsWrittenIsPutBack) {
  Life life(folders());
  for (const char* name : {"checkpoint-1", "checkpoint-2"}) {
    write(std::string(name) + "/model.safetensors", safetensors(name));
    life.wait_for(1);
  }
  fs::remove_all(path("checkpoint-1"));
  fs::remove_all(path("checkpoint-2"));
  life.rest(2'000);
  write("checkpoint-3/model.safetensors", safetensors("three").substr(0, 20));
  life.died = true;
  life.end(End::Killed);
  EXPECT_TRUE(exists("checkpoint-2"));
  EXPECT_FALSE(exists("checkpoint-3"));
}

TEST_F(Lives, AnEmptyMarkerIsAsWholeAsAnyFile) {
  Life life(folders());
  for (const char* name : {"checkpoint-1", "checkpoint-2"}) {
    write(std::string(name) + "/model.safetensors", safetensors(name));
    write(std::string(name) + "/_SUCCESS", "");
    life.wait_for(1);
  }
  life.end(End::Killed);
  EXPECT_TRUE(exists("checkpoint-2/_SUCCESS"));
  EXPECT_EQ(set_aside(), 0U);
}

TEST_F(Lives, PuttingBackThatWasBrokenOffGoesOn) {
  {
    Life life(files("*.bin"));
    for (const char* content : {"one", "two"}) {
      write("a.bin", content);
      write("b.bin", content);
      life.wait_for(2);
    }
  }
  auto record = decode(content_of(mount_ / ".spotter" / record_name)).value();
  record.restoring = true;
  std::ofstream(mount_ / ".spotter" / record_name) << encode(record);
  remove("a.bin");  // put away, and not yet put back
  settle(files("*.bin"));
  EXPECT_EQ(read("a.bin"), "two");
  EXPECT_EQ(read("b.bin"), "two");
}

TEST_F(Lives, ALogThatIsOpenHindersNothingAndStays) {
  Life life({mount_, "ckpt", ""});  // all that is there
  std::ofstream log(path("events.out.tfevents.1"));
  for (const char* step : {"1", "2", "3"}) {
    log << "a row" << std::flush;
    write("model_" + std::string(step) + ".pt", zip(step));
    life.wait_for(1);
  }
  log << "the last row" << std::flush;
  write("model_4.pt", zip("half").substr(0, 20));
  life.died = true;
  life.end(End::Killed);
  EXPECT_EQ(there(), (Names{"events.out.tfevents.1", "model_1.pt", "model_2.pt", "model_3.pt"}));
  EXPECT_EQ(read("events.out.tfevents.1"), "a rowa rowa rowthe last row");
}

// A heartbeat, a lock: small files beside the checkpoints that are of no save.
TEST_F(Lives, SmallFilesThatComeAtAnyTimeHinderNothing) {
  Life life(files("*.pt"));
  const Descriptor lock(::open(path("lock").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  for (const char* step : {"1", "2", "3", "4"}) {
    for (const char* name : {"model.pt", "optim.pt"}) write(name, zip(name + std::string(step)));
    for (int i = 0; i < 15; ++i) {
      write("heartbeat.json", std::to_string(i));
      life.rest(200);
    }
    EXPECT_EQ(life.finished().size(), 2U * (step[0] - '0')) << "before the next save";
  }
  write("model.pt", zip("model.pt5"));
  write("heartbeat.json", "{}");
  life.look();
  life.died = true;
  life.end(End::Killed);
  EXPECT_EQ(read("model.pt"), zip("model.pt4"));
  EXPECT_EQ(read("optim.pt"), zip("optim.pt4"));
}

TEST_F(Lives, APersonsNotesStayWhereTheyAre) {
  write("NOTES", "before it");
  Life life(files("*.pt"));
  for (const char* step : {"1", "2"}) {
    for (const char* name : {"model.pt", "optim.pt"}) write(name, zip(name + std::string(step)));
    life.wait_for(2);
  }
  write("model.pt", zip("model.pt3"));
  life.look();
  life.died = true;
  life.end(End::Killed);
  EXPECT_EQ(read("NOTES"), "before it");
  EXPECT_EQ(read("model.pt"), zip("model.pt2"));
}

// A file that stayed open for all of an earlier run, written over from its start in this one.
TEST_F(Lives, ALogOfAnEarlierRunIsOneFromTheStart) {
  const auto save = [&](const std::string& step) {
    for (const char* name : {"model.pt", "optim.pt"}) write(name, zip(name + step));
  };
  for (const char* first : {"1", "2"}) {
    Life life(files("*.pt *.wandb"));
    std::ofstream log(path("run.wandb"));
    for (int i = 0; i < (first[0] == '1' ? 4 : 1); ++i) {
      log << "a row" << std::flush;
      save(std::string(first) + std::to_string(i));
      for (int j = 0; j < 30; ++j, life.rest(100)) log << "a row" << std::flush;
    }
    if (first[0] == '2') {
      EXPECT_EQ(life.finished().size(), 2U);
    }
    write("model.pt", zip("half"));
    life.died = true;
    life.end(End::Killed);
  }
  EXPECT_EQ(read("model.pt"), zip("model.pt20"));
  EXPECT_EQ(read("optim.pt"), zip("optim.pt20"));
}

// timm: the newest by its name, which is taken from the save before, and links of it. Killed before
// anything was at rest.
TEST_F(Lives, WhatIsLeftOfASaveWhoseFileIsReplacedIsNoState) {
  Life life(files("*.tar"));
  for (const char* step : {"10", "20"}) {
    write("tmp.tar", zip(step));
    fs::remove(path("last.tar"));
    fs::rename(path("tmp.tar"), path("last.tar"));
    fs::create_hard_link(path("last.tar"), path("checkpoint-" + std::string(step) + ".tar"));
  }
  std::ofstream half(path("tmp.tar"));
  half << "half" << std::flush;
  life.look();
  life.died = true;
  life.end(End::Killed);
  if (exists("checkpoint-10.tar")) {
    EXPECT_TRUE(exists("last.tar"));
  }
}

// Ignite with n_saved=1 beside a heartbeat: the last one is removed before the next is written.
TEST_F(Lives, ARemovedCheckpointComesBackThoughAHeartbeatWasWritten) {
  for (const char* step : {"1", "2"}) {
    Life life(files("*.pt"));
    const std::string number(step);
    for (const char* part : {"1", "2", "3"}) {
      const std::string name = "checkpoint_" + number + part + ".pt";
      for (const auto& each : there())
        if (each.ends_with(".pt")) remove(each);
      write(name, zip(name));
      life.rest(5'000);
      write("status.json", "{\"at\": " + number + part + "}");
      life.rest(5'000);
    }
    remove("checkpoint_" + number + "3.pt");
    write("status.json", "{}");
    life.look();
    life.end(End::Killed);
    EXPECT_TRUE(exists("checkpoint_" + number + "3.pt")) << number;
  }
}

// Metrics each epoch, a set each second epoch: no half set is taken for one.
TEST_F(Lives, MetricsOfTheirOwnBeatSayNothingOfASet) {
  Life life(files("*.pt"));
  for (int epoch = 1; epoch <= 6; ++epoch) {
    if (epoch == 6) {
      write("model_6.pt", zip("model_6"));
      life.rest(500);
      life.end(End::Killed);
      break;
    }
    if (epoch % 2 == 0)
      for (const char* name : {"model_", "optim_"}) {
        write(name + std::to_string(epoch) + ".pt", zip(name));
        life.rest(500);
      }
    life.rest(3'000);
    write("metrics.json", "{\"epoch\": " + std::to_string(epoch) + "}");
    life.rest(30'000);
  }
  EXPECT_FALSE(exists("model_6.pt"));
  EXPECT_TRUE(exists("model_4.pt") && exists("optim_4.pt"));
  EXPECT_EQ(read("metrics.json"), "{\"epoch\": 5}") << "it is of no save, and stays";
}

// A mark that is touched is as empty as it was; a small file that has grown is no small one.
TEST_F(Lives, AMarkThatIsTouchedAndALogThatHasGrownStay) {
  Life life(files("*.pt"));
  std::string lines;
  for (const char* step : {"1", "2", "3"}) {
    write("model.pt", zip(step));
    write("DONE", "");
    write("log.txt", lines += std::string(5'000, 'x') + "\n");
    life.rest(40'000);
  }
  write("model.pt", zip("4"));
  write("DONE", "");
  write("log.txt", lines += std::string(5'000, 'y') + "\n");
  life.look();
  write("model.pt", zip("5").substr(0, 60));
  life.died = true;
  life.end(End::Killed);
  EXPECT_EQ(read("log.txt"), lines);
  EXPECT_TRUE(read("model.pt") == zip("3") || read("model.pt") == zip("4"));
  EXPECT_TRUE(exists("DONE"));
}

// Older than the newest moment, and of no save: what a machine's loss leaves.
TEST_F(Lives, AConfigurationStaysWhenItsMachineIsLost) {
  {
    Life life(files("*.pt"));
    write("config.yaml", "lr: 0.1");
    life.rest(3'000);
    for (const char* step : {"1", "2", "3"}) {
      for (const char* name : {"model.pt", "optim.pt"}) write(name, zip(name + std::string(step)));
      life.wait_for(2);
    }
    write("model.pt", zip("half"));
  }
  settle(files("*.pt"));
  EXPECT_EQ(read("config.yaml"), "lr: 0.1");
  EXPECT_EQ(read("model.pt"), zip("model.pt3"));
}

// What was there before the first save that is watched has no copy: it stays.
TEST_F(Lives, ASmallFileThatHasNoCopyIsLeft) {
  for (const char* name : {"model.pt", "optim.pt"}) write(name, zip(name + std::string("1")));
  write("step.txt", "1");
  {
    Life life(files("*.pt"));
    write("model.pt", zip("model.pt2"));
    write("step.txt", "2");
    std::ofstream half(path("optim.pt"));
    half << "half" << std::flush;
    life.look();
    life.died = true;
    life.end(End::Killed);
  }
  EXPECT_EQ(read("model.pt"), zip("model.pt1"));
  EXPECT_TRUE(exists("step.txt"));
}

// It was recorded with the first save, and turned out to be of none.
TEST_F(Lives, AHeartbeatThatWasRecordedOnceDoesNotComeBack) {
  {
    Life life(files("*.pt"));
    for (const char* step : {"1", "2", "3"}) {
      for (const char* name : {"model.pt", "optim.pt"}) write(name, zip(name + std::string(step)));
      for (int i = 0; i < 8; ++i) {
        write("progress.json", step + std::to_string(i));
        life.rest(2'000);
      }
    }
    write("progress.json", "the last");
    write("model.pt", zip("half"));
  }
  settle(files("*.pt"));
  EXPECT_EQ(read("progress.json"), "the last");
  EXPECT_EQ(read("model.pt"), zip("model.pt3"));
}

TEST_F(Lives, ARunThatWroteOnlyASmallFileHasLearnedNothing) {
  {
    Life life(files("*.pt"));
    write("run_id.txt", "1");
    life.rest(5'000);
    life.end(End::Failed);
  }
  EXPECT_TRUE(Keeper::open(files("*.pt")).value().record().usual.empty());
}

// Each rank has a small file of its own, which it writes while the first one writes the weights.
TEST_F(Lives, SmallFilesOfRanksMakeNoLogOfACheckpointThatIsWritten) {
  for (const char* run : {"1", "2"}) {
    Life life(files("*.pt"));
    for (const char* save : {"1", "2", "3"}) {
      const std::string content = zip(std::string(run) + save);
      std::ofstream file(path("model.pt"));
      file << content.substr(0, content.size() / 2) << std::flush;
      life.rest(300);
      for (const char* rank : {"0", "1", "2", "3"}) {
        write("rng_" + std::string(rank) + ".json", std::string(run) + save);
        life.rest(300);
      }
      life.rest(2'000);
      file << content.substr(content.size() / 2) << std::flush;
      file.close();
      life.rest(5'000);
    }
    std::ofstream file(path("model.pt"));
    file << "half" << std::flush;
    for (const char* rank : {"0", "1", "2", "3"}) {
      write("rng_" + std::string(rank) + ".json", "half");
      life.rest(1'000);
    }
    life.died = true;
    life.end(End::Killed);
    EXPECT_EQ(read("model.pt"), zip(run + std::string("3"))) << run;
    EXPECT_EQ(read("rng_3.json"), run + std::string("3")) << run;
  }
}

}  // namespace
}  // namespace spotter::guard
