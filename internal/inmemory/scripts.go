package inmemory

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// Scripts executes the scripts of EVAL and EVALSHA. Miniredis compiles each of them anew, in a new
// state of Lua, which takes longer than most scripts of a lock. Redis has one state for all
// scripts, and so has this. All that is not usual is left to miniredis: see run.
type Scripts struct {
	m *miniredis.Miniredis
	// The rest is protected by miniredis' mutex.
	state *lua.LState // nil before the first script
	// Of the script that runs:
	peer  *miniserver.Peer // of its commands
	reply bytes.Buffer     // to the last of them
	read  *bufio.Reader    // from reply
}

var (
	// compiled has the compiled scripts of all servers by their text: *lua.FunctionProto, nil for a
	// script that is left to miniredis.
	compiled sync.Map
	// nested is the connection of a command of a script in database 0, as miniredis has it: the
	// same for all servers.
	nested atomic.Pointer[reflect.Value]
)

// unusual finds in a script what it may have with miniredis and not here.
var unusual = regexp.MustCompile(`\b(server|cjson|cmsgpack|bit|struct|os|require|package|debug|coroutine|load|loadstring|dofile|setfenv|getfenv|_G)\b|` +
	`\bredis\s*\.\s*(log|LOG_\w+|sha1hex|replicate_commands|set_repl|setresp)\b`)

var comment = regexp.MustCompile(`--[^\n]*`)

// NewScripts returns the interpreter of the server's scripts.
func NewScripts(m *miniredis.Miniredis) *Scripts {
	return &Scripts{m: m}
}

// Before executes the command if it is an EVAL or an EVALSHA, and reports whether it has. It is to
// be called by miniredis' hook, with all commands, those of scripts as well.
func (s *Scripts) Before(peer *miniserver.Peer, command string, args []string) bool {
	if inScript(peer) {
		note(peer)
		return false
	}
	if len(args) < 2 {
		return false
	}
	switch strings.ToLower(command) {
	case "eval":
		return s.run(peer, fmt.Sprintf("%x", sha1.Sum([]byte(args[0]))), args[0], args[1:])
	case "evalsha":
		return s.run(peer, args[0], "", args[1:])
	}
	return false
}

// note remembers the connection that miniredis gives to commands of scripts.
func note(peer *miniserver.Peer) {
	if nested.Load() != nil {
		return
	}
	if ctx := reflect.ValueOf(peer.Ctx).Elem(); ctx.FieldByName("selectedDB").Int() == 0 {
		own := reflect.New(ctx.Type()).Elem()
		own.Set(ctx)
		nested.Store(&own)
	}
}

// run executes the script, or "" for the one that miniredis has by this hash, and reports true, if
// no password is needed, and the connection has selected no database and is in no transaction and
// no subscription. It takes miniredis' mutex.
func (s *Scripts) run(peer *miniserver.Peer, sha, script string, args []string) bool {
	s.m.Lock()
	defer s.m.Unlock()
	like := nested.Load()
	if like == nil || !isUsual(peer) {
		return false
	}
	m := reflect.ValueOf(s.m).Elem()
	if m.FieldByName("passwords").Len() > 0 {
		return false
	}
	loaded := (*map[string]string)(m.FieldByName("scripts").Addr().UnsafePointer())
	if script == "" {
		script = (*loaded)[sha]
	}
	keys, err := strconv.Atoi(args[0])
	if args = args[1:]; err != nil || keys < 0 || keys > len(args) {
		return false
	}
	proto := compile(script)
	if proto == nil {
		return false
	}
	if s.state == nil {
		s.open()
	}
	own := reflect.New(like.Type()) // a script may select a database
	own.Elem().Set(*like)
	s.peer.Ctx = own.Interface()
	l := s.state
	defer l.SetTop(0)
	l.SetGlobal("KEYS", list(l, args[:keys]))
	l.SetGlobal("ARGV", list(l, args[keys:]))
	l.Push(l.NewFunctionFromProto(proto))
	if err := l.PCall(0, lua.MultRet, nil); err != nil {
		peer.WriteError("ERR Error compiling script (new function): " + err.Error()) // as miniredis calls each error
		return true
	}
	(*loaded)[sha] = script
	write(peer, l.Get(1))
	return true
}

// isUsual reports whether the peer's connection has nothing of its own that a script may need.
func isUsual(peer *miniserver.Peer) bool {
	ctx := reflect.ValueOf(peer.Ctx)
	if !ctx.IsValid() { // of its first command
		return true
	}
	ctx = ctx.Elem()
	return ctx.FieldByName("transaction").IsNil() && ctx.FieldByName("subscriber").IsNil() && ctx.FieldByName("selectedDB").Int() == 0
}

// compile returns nil for a script that is left to miniredis.
func compile(script string) *lua.FunctionProto {
	if proto, known := compiled.Load(script); known {
		return proto.(*lua.FunctionProto)
	}
	var proto *lua.FunctionProto
	if script != "" && !unusual.MatchString(comment.ReplaceAllString(script, "")) {
		if chunk, err := parse.Parse(strings.NewReader(script), "<string>"); err == nil {
			proto, _ = lua.Compile(chunk, "") // nil after an error, which miniredis reports
		}
	}
	compiled.Store(script, proto)
	return proto
}

// protect refuses globals that are not there, as Redis does.
const protect = `
	KEYS, ARGV = {}, {}
	local error, tostring = error, tostring
	setmetatable(_G, {
		__newindex = function(_, name) error("Script attempted to create global variable '" .. tostring(name) .. "'", 2) end,
		__index = function(_, name) error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2) end,
	})`

func (s *Scripts) open() {
	s.peer = miniserver.NewPeer(bufio.NewWriter(&s.reply))
	s.read = bufio.NewReader(&s.reply)
	l := lua.NewState(lua.Options{SkipOpenLibs: true, MinimizeStackMemory: true, RegistrySize: 256, RegistryMaxSize: 256 * 20})
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		l.Push(l.NewFunction(open))
		l.Push(lua.LString(name))
		l.Call(1, 0)
	}
	l.SetGlobal("redis", l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
		"call":         func(l *lua.LState) int { return s.call(l, true) },
		"pcall":        func(l *lua.LState) int { return s.call(l, false) },
		"status_reply": func(l *lua.LState) int { l.Push(field("ok", l.CheckString(1))); return 1 },
		"error_reply":  func(l *lua.LState) int { l.Push(field("err", errorText(l.CheckString(1)))); return 1 },
	}))
	if err := l.DoString(protect); err != nil {
		panic(err)
	}
	s.state = l
}

// call is redis.call, or redis.pcall, which returns an error in place of raising it.
func (s *Scripts) call(l *lua.LState, raise bool) int {
	args := make([]string, l.GetTop())
	for n := range args {
		switch arg := l.Get(n + 1).(type) {
		case lua.LNumber:
			args[n] = arg.String()
		case lua.LString:
			args[n] = string(arg)
		default:
			l.RaiseError("Lua redis lib command arguments must be strings or integers")
		}
	}
	if len(args) == 0 {
		l.RaiseError("Please specify at least one argument for this redis lib call")
	}
	s.m.Server().Dispatch(s.peer, args)
	s.peer.Flush()
	reply, err := miniserver.ParseReply(s.read)
	if err != nil {
		if raise {
			l.Error(lua.LString(err.Error()), 1)
		}
		l.Push(field("err", err.Error()))
		return 1
	}
	l.Push(value(l, reply))
	return 1
}

// value converts a reply for a script.
func value(l *lua.LState, reply any) lua.LValue {
	switch reply := reply.(type) {
	case nil:
		return lua.LFalse
	case int64:
		return lua.LNumber(reply)
	case int:
		return lua.LNumber(reply)
	case []byte:
		return lua.LString(reply)
	case string:
		return lua.LString(reply)
	case miniserver.Simple:
		return field("ok", string(reply))
	case []any:
		table := l.CreateTable(len(reply), 0)
		for _, element := range reply {
			table.Append(value(l, element))
		}
		return table
	default:
		panic(fmt.Sprintf("inmemory: a script got a %T", reply))
	}
}

// write converts what a script returns.
func write(peer *miniserver.Peer, result lua.LValue) {
	switch result := result.(type) {
	case lua.LBool:
		if result {
			peer.WriteInt(1)
		} else {
			peer.WriteNull()
		}
	case lua.LNumber:
		peer.WriteInt(int(result))
	case lua.LString:
		peer.WriteBulk(string(result))
	case *lua.LTable:
		if err := result.RawGetString("err"); err != lua.LNil {
			peer.WriteError(err.String())
			return
		}
		if status := result.RawGetString("ok"); status != lua.LNil {
			peer.WriteInline(status.String())
			return
		}
		n := 0
		for result.RawGetInt(n+1) != lua.LNil { // to the first nil, as in Redis
			n++
		}
		peer.WriteLen(n)
		for j := range n {
			write(peer, result.RawGetInt(j+1))
		}
	default:
		peer.WriteNull()
	}
}

func list(l *lua.LState, texts []string) *lua.LTable {
	table := l.CreateTable(len(texts), 0)
	for _, text := range texts {
		table.Append(lua.LString(text))
	}
	return table
}

func field(name, text string) *lua.LTable {
	table := &lua.LTable{}
	table.RawSetString(name, lua.LString(text))
	return table
}

// errorText puts a code before a text that has none.
func errorText(text string) string {
	text = strings.TrimPrefix(text, "-")
	if !strings.Contains(text, " ") {
		return "ERR " + text
	}
	return text
}
