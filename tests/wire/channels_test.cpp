#include "agent/config/channel.hpp"

#include <gtest/gtest.h>

#include "trainer/library/recordio.hpp"

namespace spotter::wire {
namespace {

TEST(RecordIo, IsReadAsItIsWritten) {
  EXPECT_EQ(record_header(5), std::string("\x0a\x23\xd7\xce\x05\0\0\0", 8));
  EXPECT_EQ(record_size(5), 16U);
  EXPECT_EQ(record_size(8), 16U);
  EXPECT_EQ(record_padding(0), 0U);
  EXPECT_EQ(parse_record_header(record_header(longest_record))->bytes, longest_record);
  const auto last = parse_record_header(std::string("\x0a\x23\xd7\xce\x02\0\0\x60", 8));
  EXPECT_EQ(last->bytes, 2U);
  EXPECT_EQ(last->part, RecordHeader::Part::Last);
  EXPECT_FALSE(parse_record_header(std::string("\x0b\x23\xd7\xce\x02\0\0\0", 8)));
  EXPECT_FALSE(parse_record_header(std::string("\x0a\x23\xd7\xce\x02\0\0\x80", 8)));
  EXPECT_FALSE(parse_record_header("\x0a\x23"));
}

TEST(Channels, AreReadFromACommandLine) {
  const auto plain = parse_channel("train=s3://bucket/a%2Cb/c=d");
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->name, "train");
  EXPECT_EQ(plain->source, (S3Location{"bucket", "a,b/c=d"}));
  EXPECT_EQ(plain->mode, InputMode::Pipe);
  const auto all =
      parse_channel("v=s3://bucket/m.json,type=manifest,gzip,recordio,shuffle=7,sharded,anonymous");
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->type, S3DataType::ManifestFile);
  EXPECT_TRUE(all->gzip && all->recordio && all->sharded && all->anonymous);
  EXPECT_EQ(all->shuffle_seed, 7U);
  for (const char* wrong :
       {"train", "=s3://bucket/p", "a/b=s3://bucket/p", "..=s3://bucket/p", "t=http://bucket/p",
        "t=s3://bucket/p,", "t=s3://bucket/p,shuffle", "t=s3://bucket/p,fast",
        "t=s3://bucket,type=manifest", "t=s3://bucket/p,mode=file,gzip",
        "t=s3://bucket/p,anonymous,requester_pays", "t=s3://bucket/p,requester_pays=yes"}) {
    EXPECT_FALSE(parse_channel(wrong)) << wrong;
  }
}

TEST(Channels, AreDescribedAsTheyAreRead) {
  for (const char* text :
       {"t=s3://bucket/", "t=s3://bucket/a%2Cb%25,mode=file,sharded",
        "t=s3://bucket/m,type=augmented,attributes=a-ref:b%3Ac%2C,recordio,shuffle=3",
        "t=s3://bucket/m,type=manifest,gzip,recordio,shuffle=0,sharded,anonymous,"
        "content_type=text/csv; header=1%2C",
        "t=s3://bucket/,mode=file,requester_pays"}) {
    const auto channel = parse_channel(text);
    ASSERT_TRUE(channel) << channel.error().message;
    EXPECT_EQ(describe(*channel), text);
    EXPECT_EQ(parse_channel(describe(*channel)), *channel);
  }
  EXPECT_EQ(*parse_channel("t=s3://bucket/m,type=AugmentedManifestFile,attributes=a:b,"
                           "record_wrapper=RecordIO,distribution=ShardedByS3Key,shuffle_seed=1"),
            *parse_channel("t=s3://bucket/m,type=augmented,attributes=a:b,recordio,sharded,"
                           "shuffle=1"));
}

// Objects that are there as files are not streamed.
TEST(Channels, InModeFastFileAreObjectsAsTheyAre) {
  const auto channel = parse_channel("t=s3://bucket/p,mode=FastFile,sharded");
  ASSERT_TRUE(channel) << channel.error().message;
  EXPECT_EQ(channel->mode, InputMode::FastFile);
  EXPECT_EQ(describe(*channel), "t=s3://bucket/p,mode=fast_file,sharded");
  EXPECT_TRUE(parse_channel("t=s3://bucket/m,mode=fast_file,type=manifest"));
  for (const char* refused : {"gzip", "recordio", "type=augmented,attributes=a-ref"})
    EXPECT_FALSE(parse_channel(std::string("t=s3://bucket/p,mode=fast_file,") + refused));
}

// The example of the API's reference, shortened.
TEST(Channels, AreReadFromSageMakersInputDataConfig) {
  const auto read = parse_input_data_config(R"([
    {"ChannelName": "train", "ContentType": "application/x-recordio", "CompressionType": "Gzip",
     "RecordWrapperType": "RecordIO", "InputMode": "Pipe", "ShuffleConfig": {"Seed": 12},
     "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/train",
                                     "S3DataDistributionType": "ShardedByS3Key"}}},
    {"ChannelName": "labels", "RecordWrapperType": "RecordIO",
     "DataSource": {"S3DataSource": {"S3DataType": "AugmentedManifestFile",
       "S3Uri": "s3://bucket/m.jsonl", "AttributeNames": ["source-ref", "class"]}}}])");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ((*read)[0], *parse_channel("train=s3://bucket/train,gzip,recordio,shuffle=12,sharded,"
                                       "content_type=application/x-recordio"));
  EXPECT_EQ((*read)[1].attributes, (std::vector<std::string>{"source-ref", "class"}));
}

TEST(Channels, SayWhatIsWrong) {
  const auto message = [](const char* json) {
    const auto read = parse_input_data_config(json);
    return read ? "nothing" : read.error().message;
  };
  EXPECT_EQ(message(R"([{"ChannelName":"t","InputMode":"Tube","DataSource":{"S3DataSource":
              {"S3Uri":"s3://bucket/p"}}}])"),
            "channel t: InputMode is 'Tube'; there are: Pipe, File, FastFile");
  EXPECT_EQ(message(R"([{"ChannelName":"t"}])"), "channel t: '' is no S3 URL: s3://bucket/key");
  EXPECT_EQ(message(R"({"train":{"TrainingInputMode":"Pipe"}})"),
            "this is what a container gets, without any S3Uri: CreateTrainingJob's "
            "InputDataConfig, an array of channels, is read");
  EXPECT_EQ(message(R"("train")"), "InputDataConfig is a JSON array of channels");
  EXPECT_NE(message("[1]"), "nothing");
  EXPECT_NE(message("[{"), "nothing");
  EXPECT_EQ(message("[\"\xFF\n"), "not JSON: \"[\\\"\xEF\xBF\xBD\\n\"") << "a line of UTF-8";
}

TEST(Channels, HaveNamesThatGoTogether) {
  const auto together = [](const char* one, const char* other) {
    std::vector<Channel> all;
    EXPECT_TRUE(add_channel(all, *parse_channel(one)));
    return add_channel(all, *parse_channel(other)).has_value();
  };
  EXPECT_TRUE(together("t=s3://bucket/p", "t_=s3://bucket/p,mode=file"));
  EXPECT_TRUE(together("t=s3://bucket/p", "t_1=s3://bucket/p"));
  EXPECT_TRUE(together("t=s3://bucket/p,mode=file", "t_1=s3://bucket/p,mode=file"));
  EXPECT_FALSE(together("t=s3://bucket/p", "t=s3://bucket/q"));
  EXPECT_FALSE(together("t=s3://bucket/p", "t_12=s3://bucket/p,mode=file"));
  EXPECT_FALSE(together("t_12=s3://bucket/p,mode=file", "t=s3://bucket/p"));
}

TEST(Manifest, NamesItsObjects) {
  const auto read = parse_manifest(R"([{"prefix":"s3://bucket/a "},"b","/c"])");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->prefix, (S3Location{"bucket", "a "}));
  EXPECT_EQ(read->keys, (std::vector<std::string>{"a b", "a /c"}));
  EXPECT_EQ(parse_manifest(R"([{"prefix":"s3://bucket/"},"b",3])").error().message,
            "entry 2 of the manifest is no text");
  for (const char* wrong : {"", "{}", "[]", R"(["a"])", R"([{"prefix":"bucket"},"a"])",
                            R"([{"prefix":"s3://bucket"},"s/a"])"}) {
    EXPECT_FALSE(parse_manifest(wrong)) << wrong;
  }
}

TEST(AugmentedManifest, GivesTheAttributesInTheirOrder) {
  const std::string line =
      R"({"class": 3, "source-ref": "s3://bucket/i.jpg", "note": "a\"b", "meta": {"x": [1]}})";
  const auto read = parse_augmented_line(line, {"source-ref", "class", "note", "meta"});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ((*read)[0].object, (S3Location{"bucket", "i.jpg"}));
  EXPECT_EQ((*read)[1].value, "3");
  EXPECT_EQ((*read)[2].value, "a\"b");
  EXPECT_EQ((*read)[3].value, R"({"x":[1]})");
  EXPECT_FALSE(parse_augmented_line(line, {"missing"}));
  // Python writes such lines.
  for (const char* odd : {"NaN", "-Infinity", "[Infinity,1]"}) {
    const auto text = R"({"a-ref":"s3://bucket/k","x":"NaN \uD83D","v":)" + std::string(odd) + "}";
    const auto entries = parse_augmented_line(text, {"a-ref", "v", "x"});
    ASSERT_TRUE(entries) << entries.error().message;
    EXPECT_EQ(entries->at(1).value, odd);
    EXPECT_EQ(entries->at(2).value, "NaN \xEF\xBF\xBD");
    EXPECT_TRUE(parse_manifest("[" + text.substr(0, 1) + R"("prefix":"s3://bucket/",)" +
                               text.substr(1) + ",\"k\"]"));
  }
  EXPECT_FALSE(parse_augmented_line(R"({"a-ref": "i.jpg"})", {"a-ref"}));
}

}  // namespace
}  // namespace spotter::wire
