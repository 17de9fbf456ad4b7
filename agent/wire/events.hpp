// The kinds of journal lines that have an explanation for a person: a stable name, and the id under
// which systemd/spotter.catalog explains it (MESSAGE_ID of systemd.journal-fields(7)).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace spotter::wire {

struct EventKind {
  std::string_view name;
  std::string_view id;  // 32 hexadecimal digits, random, never used for anything else
};

inline constexpr EventKind event_kinds[] = {
    {"agent-started", "591001fe8ea1428899d0be11f2afa09e"},
    {"agent-left", "8fe202c7c9a34039b45679619f2547b6"},
    {"interruption-notice", "e3a785e8c86e490b88decebde48a2afc"},
    {"notice-withdrawn", "62071c002cd7406da890998c568dc07b"},
    {"rebalance-recommendation", "7858c98ea9fb4a1ca9a814c6d7d83a63"},
    {"metadata-silent", "380a7a1122814f0fa661acff9abb8e42"},
    {"metadata-answers", "8673022bbf8044b991cc57247e2e7882"},
    {"clock-wrong", "5b0b7a6c0d3c4f1e9a52d1f0c6e84b37"},
    {"trainer-adopted", "c8d7a6890ca142fc8834b67ef2ab249b"},
    {"training", "d7e51763d66341d3b73b95d6e53cb565"},
    {"trainer-resumed", "762382a6bd4d4338a4c6d49142adb421"},
    {"checkpoint-durable", "bf2faa75e3a2475a9c0efc6c32dca2a4"},
    {"torn-checkpoint", "99c37bfb7d974db9a2ac493e70abcd00"},
    {"trainer-finished", "1083ad613f2d4400914a1b55d01b80b3"},
    {"trainer-stopped", "d5d50a298bc64953ac4d7ae604b8a895"},
    {"trainer-failed", "1520bc564c6047ff8edd8e6930f477b7"},
    {"trainer-stalled", "f718e6de44b04c2183d13830e52a220b"},
    {"trainer-lost", "d6c401c5a6bb475996ddf57573e0672f"},
    {"words-refused", "e1b9c0d74a5f4c0c8f36b2a97d15e408"},
    {"words-limited", "5f0c7a1e93d84b6ab2e4d8173c96fa20"},
    {"trainer-killed", "446d8cf3caaa4493a4471662e3819e5b"},
    {"call-failed", "6859c542b4b846cda2e5643521f3a13b"},
    {"volume-moving", "9bb544d867c941158c4350050ce9061f"},
    {"volume-moved", "e478b929383c49ee8289000b94e09987"},
    {"volume-held", "c81e2db0f8b5454b879865f14b4001a3"},
    {"share-held", "ecbd4f3848ec4a838e2a2b775def8594"},
    {"share-foreign", "440dd5faa48f46e4afb4761bb1fe81a8"},
    {"share-silent-now", "db15124992a84b1ea8ddd18309f8cc66"},
    {"share-answers", "76995a55826f464abda987f357b0ef6a"},
    {"released", "553631113b174b8a9c99407bdf8e88fc"},
    {"finished", "468f66d8c6df413ab1000013b7cfb86a"},
    {"gave-up-no-progress", "45dcd5efa5f047fe9d4ddf19046f3005"},
    {"gave-up-hours-spent", "b340ed38547240d2923ec1df9fdaba1c"},
    {"gave-up-dollars-spent", "01b90c6c473f46a88bce95a998961060"},
    {"gave-up-blocked", "0674705b093f413a88151f8f11c46fee"},
    {"invariant-broken", "6572b0b9260f48bdb186162be65eb031"},
    {"no-volume", "91ef58789af144ffade5e918df7ce803"},
    {"two-volumes", "ae621bcd5e6a42a18544849c1e534d20"},
    {"volume-broken", "bd78f2a6524f4ed28187995b6e5de800"},
    {"copy-damaged", "6cfcfa39e12843bf84ffa9bae369163d"},
    {"blank-not-ours", "c646418fc22844a9b5c8ccaa8af275de"},
    {"disk-foreign", "b13da33fe22b4441a73059f49d15facd"},
    {"file-system-damaged", "120780e9830b4da79449fde4cee5eaaa"},
    {"mount-failed", "4d671c2d0ac7412e86e5b94437f6993a"},
    {"share-unusable", "c62da2db54a24eec96abd40ff415e849"},
    {"share-silent", "5dce73b30ed2451daeddc5ad833f1ade"},
    {"many-instances", "3f91ffdf21e94e69b6afdbe760ec6cb8"},
    {"data-made", "8b8e054aa1b4db652b163589ba3e5c26"},
    {"data-unusable", "9146718bf0d09cdba346f876945f681a"},
    {"fence-unusable", "9d496bb37da94ca09ebb7d31b28c0860"},
    {"data-left", "9fb1700e7de1936ac8abae423cc5377d"},
    {"device-absent", "27871e79e6264456bfb78bd88bc5dbbc"},
    {"volume-stuck", "41e997d3e3cc4b078670a4568012a5df"},
    {"code-unreachable", "422318a3df1249ef85a3a14e563ab03c"},
    {"code-missing", "bbb6f587a7544b10b3f25016e0e3f7f4"},
    {"trainer-unstartable", "92b85b5a64144ce880edd230673b7e36"},
    {"setup-failed", "aed7c14dfc2848cfb94c1b7f698ab9c1"},
    {"not-permitted", "46df06fd650b40fb8d77a2b25ec8e3d1"},
    {"call-rejected", "a7419a676af946febc1c0a0fb9f54dac"},
    {"copy-vanished", "c51f3a18362346409c274fe97527c913"},
    {"change-in-vain", "2f44204ee54c4423b1f3215ccbbaba4b"},
    {"not-published", "dface9bc73e645f2a1791bcaa7cb4677"},
    {"result-not-sent", "3e5d2a90c7b14f0f8d6c1b7a42f9e815"},
    {"claim-lost", "cb463681fe0c4bf599394b70ddc1a609"},
    {"experiment-failed", "79667167b06c4ab3a3a379433346cfc6"},
    {"experiment-stopped-early", "14c7d6bb1a9940a0847e0470976a3a6c"},
    {"machine-unfit", "c5b452cf32c44e4494d56a4daa812b87"},
    {"volume-not-free", "267cebfe18e54dfeb7bf60aad8f48058"},
    {"volume-not-filled", "e27eaa17f72d48bbade1bff9a9afa654"},
    {"gpus-absent", "cd94e8734e474b0284aa407e66716c1e"},
    {"instance-given-back", "ded07b796d7645cb9e4ce4833f6e761d"},
    {"notification-failed", "84648cd989894193bbc862a76a1c4b79"},
    {"gave-up-gpus-absent", "050fbff434fa4bdcaed1f7ad561d793b"},
    {"gave-up-starts-in-vain", "221ddc647fec4584b128e3c12598e2c3"},
};

// Does not compile for a name that is not in the table.
consteval EventKind event(std::string_view name) {
  for (const EventKind& kind : event_kinds)
    if (kind.name == name) return kind;
  throw std::invalid_argument("no such kind of event");
}

// systemd/spotter.catalog, compiled into the program: what each kind of event means,
// and what to do about it. No I/O. Format: https://systemd.io/CATALOG

struct Explanation {
  std::string_view name;  // interruption-notice
  std::string subject;    // in one line
  std::string text;       // paragraphs, with an empty line between two
};
// In the order of the events. A field that journalctl would fill in appears as its name: VOLUME_ID.
std::vector<Explanation> explanations();

// Parses a text in the catalog's format. Leaves out kinds of events that it does not explain.
std::vector<Explanation> read_catalog(std::string_view catalog);

}  // namespace spotter::wire
