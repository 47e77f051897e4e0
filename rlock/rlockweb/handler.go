package rlockweb

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-rlock/rlock/rlock"
	"github.com/go-rlock/rlock/rlock/inspect"
)

// Options are the options of a page. The zero value is a page that only shows.
type Options struct {
	// Title is shown in the head of the page: the name of the service, or of the server.
	Title string
	// Unlock lets viewers take a lock away from its holders, after a confirmation. A service that
	// sets it decides by its login who may.
	Unlock bool
	// Who names the person behind a request, for the log. By default it is the remote address.
	Who func(*http.Request) string
	// Logger gets a line at level Warn for each attempt to take a lock away; slog.Default() if nil.
	Logger *slog.Logger
	// Findings examines the server of the locks, or is nil. It is called when the page of a lock is
	// opened, at most once in ten minutes, and its results are shown there.
	Findings func(context.Context) []Finding
}

// A Finding is the result of one check of the server, as that of "rlock doctor".
type Finding struct{ Check, Level, Found, Risk, Remedy string }

// Handler returns the page for the locks that the client sees. It needs no Close; once the client is
// closed the page says so. When an [http.Server] shuts down, the pages that it serves are told to
// end.
func Handler(client *rlock.Client, options Options) http.Handler {
	if options.Who == nil {
		options.Who = func(r *http.Request) string { return r.RemoteAddr }
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	p := &page{Options: options, inspector: inspect.Of(client), watcher: newWatcher(client)}
	return http.NewCrossOriginProtection().Handler(p)
}

// A page serves its requests.
type page struct {
	Options
	inspector inspect.Inspector
	watcher   *watcher
	servers   sync.Map // *http.Server to the channel that is closed when it shuts down
	findings  findings
}

//go:embed pages
var files embed.FS

var (
	assets, _ = fs.Sub(files, "pages")
	templates = template.Must(template.New("").Funcs(template.FuncMap{"id": idOf, "printable": printable, "holder": holderName, "waiter": waiterName}).ParseFS(assets, "*.html"))
)

// policy permits what the page itself has, and nothing from elsewhere or inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP looks at the last element of the path only, so that any prefix may stand before it.
func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "same-origin") // a name is in the URL; without a referrer POST has no Origin
	head.Set("Cache-Control", "no-store")
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	if reads := r.Method == http.MethodGet || r.Method == http.MethodHead; !reads && (name != "unlock" || r.Method != http.MethodPost) {
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	switch name {
	case "":
		if r.URL.Path == "" { // StripPrefix without the slash: the links of the page need it
			path, _, _ := strings.Cut(r.RequestURI, "?")
			head.Set("Location", "./"+path[strings.LastIndex(path, "/")+1:]+"/")
			w.WriteHeader(http.StatusMovedPermanently)
			return
		}
		p.show(w, http.StatusOK, "list", queryOf(r))
	case "lock":
		if q := queryOf(r); p.resolve(w, q) {
			p.show(w, http.StatusOK, "lock", q)
		}
	case "unlock":
		p.unlock(w, r)
	case "events":
		p.events(w, r)
	case "page.js", "page.css", "page.svg":
		http.ServeFileFS(w, r, assets, name)
	default:
		p.fail(w, http.StatusNotFound, "There is no such page.")
	}
}

// show writes the page of that template.
func (p *page) show(w http.ResponseWriter, code int, name string, data any) {
	var text strings.Builder
	if err := templates.ExecuteTemplate(&text, "page-"+name, map[string]any{"Options": p.Options, "Data": data}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = fmt.Fprint(w, text.String())
}

func (p *page) fail(w http.ResponseWriter, code int, text string) { p.show(w, code, "failure", text) }

// resolve finds the name of the lock that is asked for. If there is none it writes why, and returns
// false.
func (p *page) resolve(w http.ResponseWriter, q *query) bool {
	if q.Lock == "" {
		q.Lock = p.watcher.nameOf(q.ID)
	}
	if q.Lock == "" {
		p.fail(w, http.StatusNotFound, "No lock of that name was seen since the page was opened. Look for it in the list.")
	}
	return q.Lock != ""
}

// events writes the state that is asked for, and then its changes, as server-sent events.
func (p *page) events(w http.ResponseWriter, r *http.Request) {
	q := queryOf(r)
	if q.ID != "" && !p.resolve(w, q) {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep them
	if r.Method == http.MethodHead {
		return
	}
	v := p.watcher.add(q)
	defer p.watcher.remove(v)
	out, over, sent := http.NewResponseController(w), p.shutdown(r), make(map[string]string)
	for {
		// A service has set its deadline for answers that end.
		_ = out.SetWriteDeadline(time.Now().Add(30 * time.Second))
		text, err := json.Marshal(p.changes(v, sent))
		if err == nil {
			_, err = fmt.Fprintf(w, "retry: 1000\ndata: %s\n\n", text)
		}
		if err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-v.news:
		case <-over:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// shutdown returns a channel that is closed when the server of the request shuts down: it would wait
// for the stream.
func (p *page) shutdown(r *http.Request) chan struct{} {
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return nil
	}
	over, known := p.servers.LoadOrStore(server, make(chan struct{}))
	if !known {
		server.RegisterOnShutdown(func() { close(over.(chan struct{})) })
	}
	return over.(chan struct{})
}

// findings keeps the results of an examination.
type findings struct {
	mu    sync.Mutex // guards the fields below
	at    time.Time
	found []Finding
}

// examined returns the last results, those with a risk. An examination that is due runs in the
// background.
func (p *page) examined() []Finding {
	f := &p.findings
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.Findings != nil && time.Since(f.at) > 10*time.Minute {
		f.at = time.Now()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			found := p.Findings(ctx)
			f.mu.Lock()
			defer f.mu.Unlock()
			f.found = found
		}()
	}
	return f.found
}
