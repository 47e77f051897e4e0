package idempotent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
)

// A record is a response that is kept.
type record struct {
	Print  string `json:"p,omitempty"` // the fingerprint of the request; "" for any
	Status int    `json:"s"`
	Header fields `json:"h,omitempty"` // the fields that the handler has set
	Added  fields `json:"a,omitempty"` // the values that the handler has added to fields of the handlers around the guard
	Body   []byte `json:"b,omitempty"`
	Long   bool   `json:"l,omitempty"` // the body was too long to be kept
}

// notKept are the fields that are about one connection or one moment.
var notKept = []string{"Set-Cookie", "Date", "Connection", "Keep-Alive", "Proxy-Authenticate", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length"}

// isKept reports whether a field is about the response itself.
func isKept(name string) bool { return !slices.Contains(notKept, http.CanonicalHeaderKey(name)) }

// fields is a header, whose values may have any bytes. A text in JSON is UTF-8: there each byte of a
// value is a character.
type fields http.Header

// MarshalJSON implements [json.Marshaler].
func (f fields) MarshalJSON() ([]byte, error) {
	return json.Marshal(f.with(func(value string) string {
		var text []rune
		for _, b := range []byte(value) {
			text = append(text, rune(b))
		}
		return string(text)
	}))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (f *fields) UnmarshalJSON(text []byte) error {
	var texts map[string][]string
	err := json.Unmarshal(text, &texts)
	*f = fields(fields(texts).with(func(text string) string {
		var value []byte
		for _, character := range text {
			value = append(value, byte(character))
		}
		return string(value)
	}))
	return err
}

// with returns the fields with each value changed.
func (f fields) with(change func(value string) string) map[string][]string {
	changed := make(map[string][]string, len(f))
	for name, values := range f {
		changed[name] = nil
		for _, value := range values {
			changed[name] = append(changed[name], change(value))
		}
	}
	return changed
}

// A response is what a handler writes. It is held in memory up to a length; a longer response is
// passed on to its request while it is written.
type response struct {
	most   int
	outer  http.Header // the header of the handlers around the guard
	header http.Header // the header of this handler, which begins as a copy of outer
	sent   http.Header // the header at the time at which the status was written
	status int
	body   bytes.Buffer

	notDone atomic.Bool // NotDone was called

	mu   sync.Mutex          // guards the fields below
	long bool                // the body is longer than most, and passed on; only the handler's goroutine writes it, and reads it without mu
	w    http.ResponseWriter // the writer of the request; nil once the request has left
}

func (r *response) Header() http.Header { return r.header }

// WriteHeader panics if the status is invalid, like WriteHeader of net/http.
func (r *response) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	}
	if r.status == 0 && status >= 200 { // informational responses are not passed on
		r.status, r.sent = status, r.header.Clone()
	}
}

func (r *response) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if !r.long && r.body.Len()+len(b) <= r.most {
		return r.body.Write(b)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.long {
		r.long = true
		if r.w != nil {
			r.start(r.w)
		}
		r.body = bytes.Buffer{}
	}
	if r.w == nil {
		return len(b), nil // the handler goes on although nobody reads
	}
	return r.w.Write(b)
}

// start writes to w what the handler has written so far.
func (r *response) start(w http.ResponseWriter) {
	header := w.Header()
	clear(header)
	for name, values := range r.sent {
		header[name] = values
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body.Bytes())
}

// leave detaches the response from its request, which is about to return. It reports whether a part
// of the response was passed on.
func (r *response) leave() (passed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.w = nil
	return r.long
}

// end completes a response after its handler has returned.
func (r *response) end() { r.WriteHeader(http.StatusOK) }

// encode returns the record of the response.
func (r *response) encode(print string) ([]byte, error) {
	kept := record{Print: print, Status: r.status, Body: r.body.Bytes(), Long: r.long, Header: make(fields), Added: make(fields)}
	for name, values := range r.sent {
		outer := r.outer[name]
		switch {
		case !isKept(name), len(outer) > 0 && slices.Equal(outer, values):
		case len(outer) > 0 && len(values) > len(outer) && slices.Equal(outer, values[:len(outer)]):
			kept.Added[name] = values[len(outer):]
		default:
			kept.Header[name] = values
		}
	}
	for name := range r.outer {
		if _, there := r.sent[name]; !there && isKept(name) {
			kept.Header[name] = nil // the handler deleted it
		}
	}
	return json.Marshal(kept)
}

// write writes the kept response to a request. Handlers around the guard may have set fields.
func (kept *record) write(w http.ResponseWriter) {
	header := w.Header()
	for name, values := range kept.Header {
		header[name] = values
	}
	for name, values := range kept.Added {
		header[name] = append(header[name], values...)
	}
	w.WriteHeader(kept.Status)
	_, _ = w.Write(kept.Body)
}

// problem writes an error of the middleware.
func problem(w http.ResponseWriter, status int, title string) {
	writeProblem(w, status, map[string]any{"title": title, "status": status})
}

// unknown writes that the outcome of the key is unknown. The response has the key for
// [Guard.Settle].
func unknown(w http.ResponseWriter, key string) {
	const status = http.StatusInternalServerError
	writeProblem(w, status, map[string]any{"title": errUnknown.Error(), "status": status, "key": key})
}

func writeProblem(w http.ResponseWriter, status int, fields map[string]any) {
	body, _ := json.Marshal(fields)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
