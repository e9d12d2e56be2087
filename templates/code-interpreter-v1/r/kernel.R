# Starts Debian's IRkernel. Its publishing socket drops what a slow client has not read; here it waits. Both options belong to a
# socket before it is bound, so the function that makes the sockets is another one for IRkernel.
local({
  imports <- parent.env(asNamespace("IRkernel"))
  make <- pbdZMQ::zmq.socket
  make_waiting <- function(ctx, type = pbdZMQ::ZMQ.ST()$REP, ...) {
    socket <- make(ctx, type, ...)
    if (type == pbdZMQ::ZMQ.ST()$PUB) {
      pbdZMQ::zmq.setsockopt(socket, pbdZMQ::ZMQ.SO()$XPUB_NODROP, 1L)
      pbdZMQ::zmq.setsockopt(socket, pbdZMQ::ZMQ.SO()$SNDHWM, 32L)
    }
    socket
  }
  unlockBinding("zmq.socket", imports)
  assign("zmq.socket", make_waiting, imports)
  lockBinding("zmq.socket", imports)
})
IRkernel::main()
