package rlockweb

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/golden"
	"github.com/go-rlock/rlock/internal/redistest"
	"github.com/go-rlock/rlock/rlock"
)

// chromium is the browser of all tests. Each has a tab of its own.
var chromium struct {
	once sync.Once
	ctx  context.Context
	err  error
	end  []context.CancelFunc
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, end := range chromium.end {
		end()
	}
	os.Exit(code)
}

func start() {
	var path string
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if path, chromium.err = exec.LookPath(name); chromium.err == nil {
			break
		}
	}
	if chromium.err != nil {
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	chromium.ctx, chromium.end = ctx, []context.CancelFunc{cancel, end}
	chromium.err = chromedp.Do(ctx)
}

// A tab shows a page.
type tab struct {
	t        *testing.T
	ctx      context.Context
	mu       sync.Mutex
	troubles []string // what the browser has complained about
}

// open opens a page in a new tab. A test without a browser is skipped, or fails where
// RLOCK_REQUIRE_CHROMIUM is set.
func open(t *testing.T, address string, before ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	if chromium.once.Do(start); chromium.err != nil {
		if os.Getenv("RLOCK_REQUIRE_CHROMIUM") != "" {
			t.Fatalf("there is no Chromium: %v", chromium.err)
		}
		t.Skipf("there is no Chromium: %v", chromium.err)
	}
	ctx, cancel := chromedp.NewContext(chromium.ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *cdpage.EventJavascriptDialogOpening:
			b.troubles = append(b.troubles, "dialog: "+e.Message)
		case *runtime.EventExceptionThrown:
			b.troubles = append(b.troubles, fmt.Sprintf("%+v", e.ExceptionDetails))
		case *log.EventEntryAdded:
			if e.Entry.Source != log.EntrySourceNetwork { // what a server that is away causes
				b.troubles = append(b.troubles, e.Entry.Text)
			}
		}
	}))
	b.do(append(before, chromedp.Navigate(address))...)
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		assert.Empty(t, b.troubles)
	})
	return b
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, redistest.Hang)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, actions...))
}

// eval returns the value of an expression.
func eval[V any](b *tab, expression string) (value V) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, redistest.Hang)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[V](expression))
	require.NoError(b.t, err)
	return value
}

// await returns once the condition is true. While a page is replaced by another there is none.
func (b *tab) await(condition string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, redistest.Hang)
	defer cancel()
	for {
		if met, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+condition+")")); err == nil && met {
			return
		}
		if ctx.Err() != nil {
			require.FailNow(b.t, "it never was: "+condition, eval[string](b, "document.body.innerText"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// sees waits until the text is shown, which has no quotes, and misses until it is not.
func (b *tab) sees(text string) {
	b.t.Helper()
	b.await(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

func (b *tab) misses(text string) {
	b.t.Helper()
	b.await(fmt.Sprintf("!document.body.innerText.includes(%q)", text))
}

// click clicks on the first link or button with the text.
func (b *tab) click(text string) {
	b.t.Helper()
	b.await(fmt.Sprintf(`(() => {
		const e = [...document.querySelectorAll("main a, main button, header a")].find(e => e.innerText.includes(%q));
		e?.click();
		return e;
	})()`, text))
}

func TestInABrowserOneSeesALockTakenAndReleased(t *testing.T) {
	t.Parallel()
	s := newSite(t, Options{Title: "shop"})
	p := s.connect()
	hold := s.take(p.NewLock("orders:1"))
	b := open(t, s.url)
	b.sees("1 held, 0 waiting")
	b.sees("read-only")
	b.await(`document.querySelector("progress").value > 1000`)
	s.take(p.NewFencedLock("orders:2"))
	b.sees("orders:2")
	require.NoError(t, hold.Release(s.ctx))
	b.await(`document.querySelector("tr.free")?.innerText.includes("orders:1")`)
}

func TestInABrowserOneFiltersAndSorts(t *testing.T) {
	t.Parallel()
	s := newSite(t, Options{})
	p := s.connect()
	for n := range 150 {
		s.take(p.NewLock(fmt.Sprintf("orders:%03d", n)))
	}
	s.take(p.NewLock("nightly"))
	s.wait(s.connect(), "orders:149")
	b := open(t, s.url)
	b.sees("Page 1 of 2")
	b.click("Next")
	b.sees("Page 2 of 2")
	b.sees("orders:149")
	b.click("Waiting")
	b.await(`document.querySelector("tbody tr")?.innerText.includes("orders:149")`)
	b.do(chromedp.SendKeys("#filter", "night"))
	b.await(`document.querySelectorAll("tbody tr").length === 1`)
	b.sees("nightly")
	eval[string](b, `document.getElementById("filter").value = ""`)
	b.do(chromedp.SendKeys("#filter", "orders:0?[1-2]"))
	b.await(`document.querySelectorAll("tbody tr").length === 20`)
	b.do(chromedp.Reload())
	b.await(`document.querySelectorAll("tbody tr").length === 20`)
}

func TestInABrowserAHostileNameIsText(t *testing.T) {
	t.Parallel()
	s := newSite(t, Options{Unlock: true})
	p := s.connect()
	name := `<img src=x onerror="alert(1)"><script>alert(2)</script></td></table>` + "\n\xff"
	s.take(p.NewLock(name))
	s.take(p.NewLock(`javascript:alert(3)//"'`))
	s.take(p.NewLock(strings.Repeat("<b>", 21_000)))
	b := open(t, s.url)
	b.await(`document.querySelectorAll("tbody tr").length === 3`)
	assert.Zero(t, eval[int](b, `document.querySelectorAll("img, b:not(td b), td script").length`))
	b.sees("(63000 characters)")
	b.click("onerror")
	b.sees("Nobody waits")
	b.click("Free by force")
	b.sees(`by force?`)
	b.click("Free by force")
	b.sees("by force, by 127.0.0.1")
}

func TestInABrowserThePageGoesOnWhenAServerIsBack(t *testing.T) {
	t.Parallel()
	s, wire := away(t)
	s.take(s.connect().NewLock("orders:1"))
	b := open(t, s.url)
	b.sees("orders:1")
	wire.Refuse()
	b.sees("Redis does not answer as it should since")
	b.sees("orders:1")
	wire.Heal()
	b.misses("Redis does not answer")
	s.served.CloseClientConnections()
	b.sees("This page has lost its server")
	b.misses("This page has lost its server")
}

func TestInABrowserTheKeyboardIsEnough(t *testing.T) {
	t.Parallel()
	s := newSite(t, Options{Unlock: true})
	p := s.connect()
	s.take(p.NewLock("nightly"))
	hold := s.take(p.NewLock("orders:1"))
	b := open(t, s.url)
	b.sees("orders:1")
	focused := func(text string) {
		t.Helper()
		for n := 0; !strings.Contains(eval[string](b, `document.activeElement.closest("a, button")?.innerText ?? ""`), text); n++ {
			require.Less(t, n, 30, "no Tab reaches %s", text)
			b.do(chromedp.KeyEvent(kb.Tab))
		}
	}
	b.do(chromedp.KeyEvent("/"))
	require.Equal(t, "filter", eval[string](b, "document.activeElement.id"))
	b.do(chromedp.KeyEvent(kb.Backspace), chromedp.KeyEvent("orders")) // DevTools types a slash whose keydown was prevented
	b.misses("nightly")
	focused("orders:1")
	assert.NotEqual(t, "none", eval[string](b, "getComputedStyle(document.activeElement).outlineStyle"), "one sees where one is")
	s.wait(s.connect(), "orders:1") // the row changes below the focus
	b.sees("1 waiting")
	assert.Equal(t, "orders:1", eval[string](b, "document.activeElement.innerText"))
	b.do(chromedp.KeyEvent(kb.Enter))
	b.sees("by message")
	focused("Free by force")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.sees("Free orders:1 by force?")
	b.sees("The first of 1 that wait is")
	b.click("Leave it")
	b.sees("by message")
	b.click("Free by force")
	b.sees("by force?")
	focused("Free by force")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.sees("by force, by")
	<-hold.Context().Done()
}

// The contrast is that of WCAG 2, level AA.
func TestInABrowserBothColourSchemesCanBeRead(t *testing.T) {
	t.Parallel()
	s := newSite(t, Options{Unlock: true})
	s.take(s.connect().NewLock("orders:1"))
	s.wait(s.connect(), "orders:1")
	papers := make(map[string]bool)
	for _, name := range []string{"light", "dark"} {
		b := open(t, s.url+"lock?l="+idOf("orders:1"), scheme(name))
		b.sees("by message")
		papers[eval[string](b, "getComputedStyle(document.body).backgroundColor")] = true
		assert.GreaterOrEqual(t, eval[float64](b, contrast), 4.5, name)
	}
	assert.Len(t, papers, 2)
}

// scheme asks for a colour scheme.
func scheme(name string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
		return err
	})
}

// contrast is the least contrast of a text with its background.
const contrast = `(() => {
	const numbers = color => color.match(/[\d.]+/g).map(Number);
	const light = color => numbers(color).slice(0, 3).map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
	const paper = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (numbers(c)[3] !== 0) return c; } };
	return Math.min(...[...document.querySelectorAll("body *")].filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).map(e => {
		const [a, b] = [light(getComputedStyle(e).color), light(paper(e))];
		return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
	}));
})()`

func TestInABrowserThePageFitsAPhone(t *testing.T) {
	t.Parallel()
	s := newSite(t, Options{Unlock: true, Title: "127.0.0.1:6379"})
	s.take(s.connect().NewFencedLock(strings.Repeat("orders:", 12)))
	s.wait(s.connect(), strings.Repeat("orders:", 12))
	b := open(t, s.url, chromedp.EmulateViewport(360, 640, chromedp.EmulateMobile))
	b.sees("1 waiting")
	fits := func() {
		t.Helper()
		assert.LessOrEqual(t, eval[int](b, "document.documentElement.scrollWidth"), 360)
	}
	fits()
	b.click("orders:")
	b.sees("by message")
	fits()
	b.click("Free by force")
	b.sees("by force?")
	fits()
}

// The picture in the documents: -rewrite makes it.
func TestInABrowserThePictureIsTaken(t *testing.T) {
	t.Parallel()
	if !*golden.Rewrite {
		t.Skip("without -rewrite")
	}
	s := newSite(t, Options{Title: "shop", Unlock: true})
	clients := []*rlock.Client{s.connect(), s.connect(), s.connect()}
	s.take(clients[0].NewFencedLock("orders:42"), rlock.WithNote("parcel 42"))
	s.take(clients[1].NewReadWriteLock("catalogue").Read())
	s.take(clients[2].NewReadWriteLock("catalogue").Read())
	s.take(clients[0].NewLock("nightly"), rlock.WithNote("backup of Saturday"))
	s.take(clients[0].NewSemaphore("encode", 5), rlock.WithPermits(3))
	s.wait(clients[1], "nightly")
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	for _, c := range clients {
		go func() {
			for ctx.Err() == nil {
				_ = c.NewLock("orders:7").Do(ctx, func(ctx context.Context) error {
					time.Sleep(1300 * time.Millisecond)
					return nil
				})
			}
		}()
	}
	b := open(t, s.url, chromedp.EmulateViewport(1100, 420))
	b.sees("nightly")
	time.Sleep(15 * time.Second)
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("../../docs/page.png", picture, 0o644))
}
