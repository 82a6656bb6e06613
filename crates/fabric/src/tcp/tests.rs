//! The suite over TCP: plain, with a secret, and through TLS; and what only a network can get wrong.

use crate::conformance::Setup;
use crate::{Address, conformance};

use super::*;

fn loopback() -> Address {
    Address::Tcp("127.0.0.1:0".into())
}

mod network;

mod plain {
    use super::*;

    struct Plain;

    impl Setup for Plain {
        type Transport = Tcp;
        const SUITE: &'static str = module_path!();

        fn transport() -> Tcp {
            Tcp::new()
        }

        fn address() -> Address {
            loopback()
        }
    }

    conformance!(Plain);
}

mod driven;
mod moved;

mod secret {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::{ConnectRequest, Connected, Listener, Login};

    /// [`Tcp`] with one secret on both sides, wherever a test asks for none.
    struct Secretive(Tcp);

    fn login(asked: &Login) -> Login {
        match asked {
            Login::None => Login::Secret(Arc::from(&b"a secret of the suite"[..])),
            given => given.clone(),
        }
    }

    impl Transport for Secretive {
        type Qp = TcpQp;
        type Listener = TcpListener;

        fn listen(&self, address: &Address, options: ListenOptions) -> Result<TcpListener, SetupError> {
            self.0.listen(address, ListenOptions { login: login(&options.login), ..options })
        }

        fn connect(&self, to: &Address, request: ConnectRequest<'_>) -> Result<Connected<TcpQp>, SetupError> {
            let login = login(&request.login);
            self.0.connect(to, ConnectRequest { login, ..request })
        }
    }

    struct WithSecret;

    impl Setup for WithSecret {
        type Transport = Secretive;
        const SUITE: &'static str = module_path!();

        fn transport() -> Secretive {
            Secretive(Tcp::new())
        }

        fn address() -> Address {
            loopback()
        }
    }

    conformance!(WithSecret);

    #[test]
    fn without_the_secret_nobody_gets_in() {
        let mut listener =
            WithSecret::transport().listen(&loopback(), ListenOptions::default()).expect("listen");
        let time = Duration::from_secs(20);
        let request =
            ConnectRequest { hello: b"", grants: vec![], landing: 0, login: Login::None, timeout: time };
        let error = Tcp::new().connect(&listener.address(), request).expect_err("no secret");
        assert!(matches!(error, SetupError::Login(_)), "{error}");
        assert!(listener.accept(Duration::from_millis(10)).expect("accept").is_none());
    }
}
