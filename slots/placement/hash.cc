#include "slots/placement/hash.h"

#include <openssl/evp.h>

#include <array>
#include <memory>

#include "slots/assert.h"

namespace slots {
namespace {

// Fetched once per thread: the look-up of an algorithm costs more than the digest of a short text.
class Md5 {
 public:
  Md5() : algorithm_(EVP_MD_fetch(nullptr, "MD5", nullptr)), context_(EVP_MD_CTX_new()) {
    SP_ASSERT(algorithm_ != nullptr && context_ != nullptr);
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest(std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    const bool is_done = EVP_DigestInit_ex2(context_.get(), algorithm_.get(), nullptr) == 1 &&
                         EVP_DigestUpdate(context_.get(), text.data(), text.size()) == 1 &&
                         EVP_DigestFinal_ex(context_.get(), bytes.data(), nullptr) == 1;
    SP_ASSERT(is_done);
    return bytes;
  }

 private:
  struct Free {
    void operator()(EVP_MD* algorithm) const { EVP_MD_free(algorithm); }
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD, Free> algorithm_;
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

}  // namespace

std::uint64_t hash64(std::string_view text) {
  thread_local Md5 md5;
  const auto bytes = md5.digest(text);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value = (value << 8) | bytes[i];
  return value;
}

}  // namespace slots
