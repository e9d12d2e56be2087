# Holds a number twice: in memory and, written over the last one, in a file.  Answers "set N" and "get" on a port with
# "NONCE MEMORY FILE": memory and file of the same instant have the same number.
import os
import socketserver

nonce, number = os.urandom(4).hex(), 0
file = os.open('generation', os.O_RDWR | os.O_CREAT | os.O_TRUNC)
os.pwrite(file, b'%08d' % number + b'.' * 8184, 0)


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        global number
        words = self.rfile.readline().split()
        if words[0] == b'set':
            number = int(words[1])
            os.pwrite(file, b'%08d' % number, 0)
        self.wfile.write(f'{nonce} {number} {int(os.pread(file, 8, 0))}\n'.encode())


with socketserver.TCPServer(('127.0.0.1', 8123), Handler) as server:
    print('ready', flush=True)
    server.serve_forever()
