package address_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/rueidis"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-rlock/rlock/cmd/rlock/internal/address"
)

// parse returns the connection of the arguments in that environment.
func parse(t *testing.T, environment map[string]string, args ...string) (rueidis.ClientOption, error) {
	t.Helper()
	for name, value := range environment {
		t.Setenv(name, value)
	}
	var flags address.Flags
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.Add(set)
	require.NoError(t, set.Parse(args))
	return flags.Option(set)
}

func TestWithoutAnythingTheServerIsOnThisHost(t *testing.T) {
	option, err := parse(t, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{address.Default}, option.InitAddress)
	assert.Nil(t, option.TLSConfig)
}

func TestAFlagCountsMoreThanTheEnvironmentAndThatMoreThanTheURL(t *testing.T) {
	option, err := parse(t, map[string]string{
		"RLOCK_URL":      "rediss://ann:one@redis.example:7000/3",
		"RLOCK_PASSWORD": "two",
		"RLOCK_USER":     "bob",
		"RLOCK_TLS_CA":   "",
	}, "--user", "eve")
	require.NoError(t, err)
	assert.Equal(t, []string{"redis.example:7000"}, option.InitAddress)
	assert.Equal(t, "eve", option.Username)
	assert.Equal(t, "two", option.Password)
	assert.Equal(t, 3, option.SelectDB)
	require.NotNil(t, option.TLSConfig)
	assert.Equal(t, "redis.example", option.TLSConfig.ServerName)
}

func TestAURLInAFlagSaysWhereTheServerIs(t *testing.T) {
	environment := map[string]string{"RLOCK_ADDR": "other.example:6379", "RLOCK_DB": "7", "RLOCK_SENTINEL": "main", "RLOCK_PASSWORD": "two"}
	option, err := parse(t, environment, "--url", "redis://redis.example:7000/3")
	require.NoError(t, err)
	assert.Equal(t, []string{"redis.example:7000"}, option.InitAddress)
	assert.Equal(t, 3, option.SelectDB)
	assert.Empty(t, option.Sentinel.MasterSet)
	assert.Equal(t, "two", option.Password)
	option, err = parse(t, environment, "--url", "redis://redis.example:7000/3", "--db", "4")
	require.NoError(t, err)
	assert.Equal(t, 4, option.SelectDB)
	environment["RLOCK_URL"] = "redis://redis.example:7000/3"
	option, err = parse(t, environment)
	require.NoError(t, err)
	assert.Equal(t, []string{"other.example:6379"}, option.InitAddress)
}

func TestSentinelsHaveAUserOfTheirOwn(t *testing.T) {
	option, err := parse(t, map[string]string{"RLOCK_ADDR": "a:26379,b:26379"}, "--sentinel", "main", "--sentinel-password", "s", "--password", "p", "--tls")
	require.NoError(t, err)
	assert.Equal(t, []string{"a:26379", "b:26379"}, option.InitAddress)
	assert.Equal(t, "main", option.Sentinel.MasterSet)
	assert.Equal(t, "s", option.Sentinel.Password)
	assert.Equal(t, "p", option.Password)
	assert.NotNil(t, option.Sentinel.TLSConfig)
}

func TestWhereThePasswordIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("hunter2\n"), 0o600))
	variable, fileVariable := map[string]string{"RLOCK_PASSWORD": "one"}, map[string]string{"RLOCK_PASSWORD_FILE": "/no/such/file"}
	both := map[string]string{"RLOCK_PASSWORD": "one", "RLOCK_PASSWORD_FILE": "/no/such/file"}
	for _, c := range []struct {
		environment map[string]string
		args        []string
		password    string // "": refused, since it is given twice
	}{
		{nil, []string{"--password-file", file}, "hunter2"},
		{variable, []string{"--password-file", file}, "hunter2"},
		{fileVariable, []string{"--password", "two"}, "two"},
		{both, []string{"--password-file", file}, "hunter2"},
		{both, []string{"--password", "two"}, "two"},
		{both, nil, ""},
		{nil, []string{"--password", "one", "--password-file", file}, ""},
	} {
		t.Run("", func(t *testing.T) {
			option, err := parse(t, c.environment, c.args...)
			assert.Equal(t, c.password == "", errors.Is(err, address.ErrUsage), err)
			assert.Equal(t, c.password, option.Password)
		})
	}
}

func TestAnErrorRepeatsNoPassword(t *testing.T) {
	for _, args := range [][]string{
		{"--url", "redis://me:hunter2@[host"},
		{"--url", "redis://me:hunter2"},
		{"--url", "http://me:hunter2@host"},
		{"--url", "redis://me:hunter2@host/x"},
		{"--url", "redis://me:hunter2%zz@host"},
		{"--tls-ca", "/no/such/file"},
		{"--tls-cert", "/no/such/file"},
		{"--password-file", "/no/such/file"},
	} {
		_, err := parse(t, nil, args...)
		require.ErrorIs(t, err, address.ErrUsage, "%v", args)
		assert.NotContains(t, err.Error(), "hunter2")
	}
	_, err := parse(t, map[string]string{"RLOCK_DB": "hunter2"})
	require.ErrorIs(t, err, address.ErrUsage)
	assert.NotContains(t, err.Error(), "hunter2")
	assert.Contains(t, err.Error(), "RLOCK_DB")
}
