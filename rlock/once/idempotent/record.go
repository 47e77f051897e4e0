package idempotent

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// A record is a response that is kept.
type record struct {
	Print  string      `json:"p"` // of the request
	Status int         `json:"s"`
	Header http.Header `json:"h,omitempty"`
	Body   []byte      `json:"b,omitempty"`
	Long   bool        `json:"l,omitempty"` // the body was too long to be kept
}

// notKept are the fields that say something about one connection or one moment.
var notKept = []string{"Set-Cookie", "Date", "Connection", "Keep-Alive", "Proxy-Authenticate", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length"}

// A response is what a handler writes.
type response struct {
	header http.Header
	sent   http.Header // the header when the status was written
	status int
	body   bytes.Buffer
}

func newResponse() *response { return &response{header: make(http.Header)} }

func (r *response) Header() http.Header { return r.header }

func (r *response) WriteHeader(status int) {
	if r.status == 0 && status >= 200 { // informational ones are not passed on
		r.status, r.sent = status, r.header.Clone()
	}
}

func (r *response) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}

// end completes a response that the handler has returned from.
func (r *response) end() { r.WriteHeader(http.StatusOK) }

// encode returns the record of the response.
func (r *response) encode(print string, most int) ([]byte, error) {
	kept := record{Print: print, Status: r.status, Header: r.sent.Clone(), Body: r.body.Bytes()}
	for _, name := range notKept {
		kept.Header.Del(name)
	}
	if len(kept.Body) > most {
		kept.Body, kept.Long = nil, true
	}
	return json.Marshal(kept)
}

func (r *response) write(w http.ResponseWriter) { write(w, r.status, r.sent, r.body.Bytes()) }

func write(w http.ResponseWriter, status int, header http.Header, body []byte) {
	for name, values := range header {
		w.Header()[name] = values
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// problem writes an error of the middleware.
func problem(w http.ResponseWriter, status int, title string) {
	body, _ := json.Marshal(map[string]any{"title": title, "status": status})
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
