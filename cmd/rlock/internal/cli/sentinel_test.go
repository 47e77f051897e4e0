//go:build unix

package cli_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/internal/redistest"
)

func TestAnErrorBesideSentinelNamesTheFlag(t *testing.T) {
	t.Parallel()
	needsServer(t)
	s := newSite(t)
	server := redistest.Sentinel(t)
	option := server.Options()
	primary, name := server.Primary("a").Addr(), option.Sentinel.MasterSet
	setPassword := func(addr, password string) {
		redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
		require.NoError(t, err)
		defer redis.Close()
		require.NoError(t, redis.Do(s.ctx, redis.B().Arbitrary("ACL", "SETUSER", "default", "resetpass", ">"+password).Build()).Error())
	}
	setPassword(primary, "server")
	for _, sentinel := range option.InitAddress {
		setPassword(sentinel, "sentinel")
	}
	all := "--addr=" + strings.Join(option.InitAddress, ",")
	const loginFailed = "login failed: "
	for _, c := range []struct {
		flags []string
		code  int
		says  string
	}{
		{[]string{all, "--sentinel", name, "--password", "server", "--sentinel-password", "sentinel"}, 0, ""},
		{[]string{all, "--sentinel", name, "--password", "wrong", "--sentinel-password", "sentinel"}, 69, loginFailed + "the user name or the password is wrong (--user, --password-file)"},
		{[]string{all, "--sentinel", name, "--sentinel-password", "sentinel"}, 69, loginFailed + "the server wants a password (--password-file)"},
		{[]string{all, "--sentinel", name, "--password", "server", "--sentinel-password", "wrong"}, 69, loginFailed + "the user name or the password for the Sentinel is wrong (--sentinel-user, --sentinel-password)"},
		{[]string{all, "--sentinel", name, "--password", "server"}, 69, loginFailed + "the Sentinel wants a password (--sentinel-password)"},
		{[]string{all, "--sentinel", "nosuch", "--password", "server", "--sentinel-password", "sentinel"}, 69, "the Sentinels know no primary by the name in --sentinel"},
		{[]string{all, "--password", "sentinel"}, 69, "give one, or name the primary with --sentinel"},
		{[]string{"--addr", option.InitAddress[0], "--password", "sentinel"}, 2, "the server is a Sentinel, which has no locks: name the primary with --sentinel"},
		{[]string{"--addr", primary, "--sentinel", name, "--password", "server", "--sentinel-password", "server"}, 69, "with --sentinel the addresses are those of Sentinels"},
	} {
		for _, command := range [][]string{{"ls"}, {"show", "a"}, {"exec", "a", "--", "true"}, {"doctor"}} {
			cmd := s.command(append(slices.Clone(command[:1]), append(c.flags, command[1:]...)...)...)
			cmd.Env = append(cmd.Env, "RLOCK_ADDR=", "RLOCK_SINGLE=")
			code, stdout, stderr := finish(t, cmd, "")
			if command[0] == "doctor" {
				assert.Contains(t, stdout, c.says, c.flags)
				continue
			}
			assert.Equal(t, c.code, code, "%v %v: %s", command, c.flags, stderr)
			assert.Contains(t, stderr, c.says, c.flags)
			assert.NotContains(t, stderr, "Config", c.flags)
		}
	}
}
