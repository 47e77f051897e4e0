package idempotent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// longestKey is the length of the longest key, in bytes.
const longestKey = 255

// parseKey reads the header: an item with a string of RFC 8941, such as
// "8e03978e-40d5-43dd-bc93-6894a57f9324" with its quotes, whose parameters are ignored. Most
// clients omit the quotes, so a key is the same with and without them. ok is false if there is no
// key.
func parseKey(values []string) (key string, ok bool) {
	if len(values) != 1 {
		return "", false
	}
	text := strings.Trim(values[0], " ")
	if strings.HasPrefix(text, `"`) {
		key, text, ok = quoted(text[1:])
	} else {
		key, text = bare(text)
		ok = true
	}
	return key, ok && len(key) > 0 && len(key) <= longestKey && areParameters(text)
}

// quoted reads a string from the text behind its first quote. rest is the text behind the string.
// ok is false if the string is malformed.
func quoted(text string) (s, rest string, ok bool) {
	var b strings.Builder
	for ; text != ""; text = text[1:] {
		switch c := text[0]; {
		case c == '"':
			return b.String(), text[1:], true
		case c == '\\':
			if text = text[1:]; text == "" || text[0] != '"' && text[0] != '\\' {
				return "", "", false
			}
			b.WriteByte(text[0])
		case c < 0x20 || c > 0x7e:
			return "", "", false
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// bare reads a key without quotes. rest is the text behind the key, its parameters or anything
// else.
func bare(text string) (s, rest string) {
	end := strings.IndexFunc(text, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`",;\`, c) })
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:]
}

// areParameters reports whether the text is empty or the parameters of an item: *( ";" *SP key [
// "=" bare-item ] ).
func areParameters(text string) bool {
	for text != "" {
		if text[0] != ';' {
			return false
		}
		text = strings.TrimLeft(text[1:], " ")
		name := spanOf(text, "abcdefghijklmnopqrstuvwxyz0123456789_-.*")
		if name == 0 || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz*", rune(text[0])) {
			return false
		}
		if text = text[name:]; !strings.HasPrefix(text, "=") {
			continue
		}
		if text = text[1:]; strings.HasPrefix(text, `"`) {
			ok := false
			if _, text, ok = quoted(text[1:]); !ok {
				return false
			}
			continue
		}
		// A token, a number, a Boolean, or bytes between colons.
		item := spanOf(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~:/=?")
		if item == 0 {
			return false
		}
		text = text[item:]
	}
	return true
}

// spanOf returns the number of bytes at the beginning of the text that are in the set.
func spanOf(text, set string) int { return len(text) - len(strings.TrimLeft(text, set)) }

// A request is an HTTP request with a key.
type request struct {
	key   string // the key of the flight
	print string // the fingerprint
	body  []byte
}

// read reads the body of a request that has the key.
func (g *Guard) read(r *http.Request, key string) (q request, err error) {
	if r.Body != nil {
		q.body, err = io.ReadAll(http.MaxBytesReader(nil, r.Body, g.o.MostBody))
	}
	path, query := target(r)
	host := hostOf(r)
	q.key = g.o.Prefix + hash(g.o.Who(r), r.Method, host, path, key)
	q.print = hash(r.Method, host, path, query, r.Header.Get("Content-Type"), string(q.body))
	return q, err
}

// hostOf returns the host name that the client has sent, without the port, since a host may be
// reached by several ports.
func hostOf(r *http.Request) string {
	host := strings.ToLower(r.Host)
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]") // an IPv6 address has brackets
}

// target returns the path and the query as the client has sent them: a handler before this one may
// have changed r.URL, for example [http.StripPrefix]. A request that did not come from a client has
// only r.URL.
func target(r *http.Request) (path, query string) {
	text := r.RequestURI
	if text == "" {
		text = r.URL.RequestURI()
	}
	path, query, _ = strings.Cut(text, "?")
	if _, rest, absolute := strings.Cut(path, "://"); absolute && path[0] != '/' { // the host of the URL is r.Host
		_, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
	return path, query
}

func hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// A handled is the value of handledKey in the context of a handler.
type handled struct {
	key  string
	mine *response
}

type handledKey struct{}

// Key returns the key of the request whose handler has the context: a hash of the client, the
// method, the host, the path and the header. Store it in a unique column beside the effect. It is
// "" for a handler without a key.
func Key(ctx context.Context) string {
	if h, ok := ctx.Value(handledKey{}).(*handled); ok {
		return h.key
	}
	return ""
}

// NotDone says that the handler with the context ctx has done nothing of what the request asks for,
// whatever the status of its response. The response is not kept, and the next request with the key
// runs the handler. The handler calls NotDone before it returns, from any goroutine. In a handler
// without a key it does nothing.
func NotDone(ctx context.Context) {
	if h, ok := ctx.Value(handledKey{}).(*handled); ok {
		h.mine.notDone.Store(true)
	}
}
