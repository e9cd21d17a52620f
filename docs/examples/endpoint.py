import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Endpoint(BaseHTTPRequestHandler):
    def do_POST(self):
        payload = json.loads(self.rfile.read(int(self.headers["content-length"])))
        output = str(payload["trace"]["output"])
        answer = json.dumps({"matches": "cannot help" in output, "reason": f"{len(output)} characters"}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8090"))), Endpoint).serve_forever()
