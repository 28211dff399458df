// Go's net/http client against the showcase. Usage: clients.go PORT; prints "ok" or the failures.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

var client = &http.Client{Timeout: 20 * time.Second}

// plain hides the length, so that the body is sent in chunks.
type plain struct{ io.Reader }

func ask(method, url string, body io.Reader, status int, want []byte) error {
	request, err := http.NewRequest(method, url, body)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != status || (want != nil && !bytes.Equal(got, want)) {
		return fmt.Errorf("%s %s: %s, %d of %d bytes", method, url, answer.Status, len(got), len(want))
	}
	return nil
}

func session(url string) error {
	for _, size := range []int{1, 100, 8000, 8192, 16384, 40000, 65536} {
		body := bytes.Repeat([]byte{'g'}, size)
		for i := 0; i < 5; i++ {
			if err := ask("POST", url+"/echo", bytes.NewReader(body), 200, body); err != nil {
				return err
			}
			if err := ask("POST", url+"/echo", plain{bytes.NewReader(body)}, 200, body); err != nil {
				return err
			}
			if err := ask("GET", url+"/hello", nil, 200, []byte("Hello, World!")); err != nil {
				return err
			}
		}
	}
	// refused before it has been sent: the client sees the 404, not a broken pipe
	return ask("POST", url+"/none", bytes.NewReader(make([]byte, 50000000)), 404, nil)
}

func main() {
	var sessions sync.WaitGroup
	failures := make(chan error, 4)
	for i := 0; i < 4; i++ {
		sessions.Add(1)
		go func() {
			defer sessions.Done()
			if err := session("http://127.0.0.1:" + os.Args[1]); err != nil {
				failures <- err
			}
		}()
	}
	sessions.Wait()
	close(failures)
	failed := false
	for err := range failures {
		fmt.Println(err)
		failed = true
	}
	if failed {
		os.Exit(1)
	}
	fmt.Println("ok")
}
