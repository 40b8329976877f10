#include "proxy/mover/mover_thread.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "slots/assert.h"

namespace proxy::mover {

MoverThread::MoverThread() : interrupt_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  SP_ASSERT(interrupt_ >= 0);
}

MoverThread::~MoverThread() { ::close(interrupt_); }

void MoverThread::start() {
  thread_ = std::thread([this] { run(); });
}

void MoverThread::stop() {
  is_stopped_ = true;
  ::eventfd_write(interrupt_, 1);
}

void MoverThread::join() {
  if (thread_.joinable()) thread_.join();
}

void MoverThread::end() {
  stop();
  join();
}

}  // namespace proxy::mover
