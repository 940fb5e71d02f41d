//! The types of the API in `crates/client/sdk`, generated from the API document by progenitor.
//!
//! Only the types are kept. A method for each endpoint was generated once: half of the file, and `Connection::fetch` does the same
//! for all of them, driven by the document.

use anyhow::{Context, Result, bail};
use progenitor::{GenerationSettings, Generator, TypeImpl};
use serde_json::Value;
use syn::punctuated::Punctuated;
use syn::{Expr, Fields, ImplItem, Item, Path, Stmt, Token, parse_quote};

use crate::downgrade::downgrade;

const HEADER: &str = "\
//! Types of the API. Generated from `openapi/platform.json` by `make bless`; edit the API crate instead.

use serde::{Deserialize, Serialize};
";

/// Returns the text of `types.rs`.
pub(crate) fn generate(document: &Value) -> Result<String> {
    let older: openapiv3::OpenAPI = serde_json::from_value(downgrade(document))
        .context("the document does not read as OpenAPI 3.0; see xtask/src/downgrade.rs")?;
    let mut settings = GenerationSettings::default();
    settings.with_map_type("::std::collections::BTreeMap");
    let instant = schemars::schema::SchemaObject {
        instance_type: Some(schemars::schema::InstanceType::String.into()),
        format: Some("date-time".to_owned()),
        ..Default::default()
    };
    settings.with_conversion(
        instant,
        "::jiff::Timestamp",
        [TypeImpl::Display, TypeImpl::FromStr].into_iter(),
    );
    let tokens =
        Generator::new(&settings).generate_tokens(&older).context("progenitor refuses the document")?;
    let mut file: syn::File = syn::parse2(tokens).context("progenitor wrote what does not parse")?;
    let types = file.items.into_iter().find_map(|item| match item {
        Item::Mod(module) if module.ident == "types" => module.content,
        _ => None,
    });
    (_, file.items) = types.context("progenitor wrote no module of types")?;
    open_enums(&mut file.items)?;
    hide_secrets(&mut file.items)?;
    file.items.retain(|item| !is_unused(item));
    derive_less(&mut file.items)?;
    let mut text = prettyplease::unparse(&file);
    for (long, short) in
        [("::std::string::String", "String"), ("::std::option::Option", "Option"), ("::std::vec::Vec", "Vec")]
    {
        text = text.replace(long, short);
    }
    Ok(format!("{HEADER}\n{text}"))
}

/// Conversions that progenitor writes for every id and enum. A client receives these values and hands them back: it parses
/// none of them by itself.
const UNUSED: [&str; 4] = ["From", "FromStr", "TryFrom", "Default"];

fn is_unused(item: &Item) -> bool {
    match item {
        Item::Impl(block) => block.trait_.as_ref().is_some_and(|(path, _)| {
            path.segments.last().is_some_and(|last| UNUSED.iter().any(|name| last.ident == name))
        }),
        // Its error type belongs to the conversions.
        Item::Mod(module) => module.ident == "error",
        _ => false,
    }
}

/// Derives only what values of an API need: comparing and printing, and no order.
fn derive_less(items: &mut [Item]) -> Result<()> {
    for item in items {
        let attributes = match item {
            Item::Struct(thing) => &mut thing.attrs,
            Item::Enum(list) => &mut list.attrs,
            _ => continue,
        };
        for attribute in attributes.iter_mut().filter(|attribute| attribute.path().is_ident("derive")) {
            let derived = attribute.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated)?;
            let kept = derived
                .iter()
                .filter(|path| !["Hash", "Ord", "PartialOrd"].iter().any(|name| path.is_ident(name)));
            let kept: Vec<&syn::Ident> =
                kept.filter_map(|path| path.segments.last()).map(|last| &last.ident).collect();
            *attribute = parse_quote!(#[derive(#(#kept),*)]);
        }
    }
    Ok(())
}

/// Adds a variant to every enum for values newer than this client: an adapter is deployed apart from the platform, and must
/// not fail on a response with a new state or code.
fn open_enums(items: &mut [Item]) -> Result<()> {
    let mut opened = Vec::new();
    for item in items.iter_mut() {
        if let Item::Enum(list) = item
            && list.variants.iter().all(|variant| matches!(variant.fields, Fields::Unit))
        {
            list.variants.push(parse_quote! {
                /// A word that this client is too old to know.
                #[serde(rename = "unrecognised", other)]
                Unrecognised
            });
            opened.push(list.ident.clone());
        }
    }
    for name in opened {
        let shown = items.iter_mut().find_map(|item| match item {
            Item::Impl(block) if is_display_of(block, &name) => words_of(block),
            _ => None,
        });
        match shown {
            Some(words) => words.push(parse_quote!(Self::Unrecognised => f.write_str("unrecognised"),)),
            None => bail!(
                "{name} is not displayed by a match over its words: progenitor has changed, see open_enums"
            ),
        }
    }
    Ok(())
}

/// Replaces the derived `Debug` of types with a secret: a program that logs its responses must not log a password.
fn hide_secrets(items: &mut Vec<Item>) -> Result<()> {
    let mut hidden: Vec<Item> = Vec::new();
    for item in items.iter_mut() {
        let Item::Struct(thing) = item else { continue };
        let mut names = thing.fields.iter().filter_map(|field| field.ident.as_ref()).map(ToString::to_string);
        if !names
            .any(|name| ["password", "current_password", "secret", "csrf_token"].contains(&name.as_str()))
        {
            continue;
        }
        for attribute in thing.attrs.iter_mut().filter(|attribute| attribute.path().is_ident("derive")) {
            let derived = attribute.parse_args_with(Punctuated::<Path, Token![,]>::parse_terminated)?;
            let kept = derived.iter().filter(|path| !path.is_ident("Debug"));
            *attribute = parse_quote!(#[derive(#(#kept),*)]);
        }
        let (name, word) = (&thing.ident, thing.ident.to_string());
        hidden.push(parse_quote! {
            impl ::std::fmt::Debug for #name {
                fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                    f.debug_struct(#word).finish_non_exhaustive()
                }
            }
        });
    }
    items.extend(hidden);
    Ok(())
}

fn is_display_of(block: &syn::ItemImpl, name: &syn::Ident) -> bool {
    let last =
        |path: &syn::Path, word: &str| path.segments.last().is_some_and(|segment| segment.ident == word);
    block.trait_.as_ref().is_some_and(|(path, _)| last(path, "Display"))
        && matches!(&*block.self_ty, syn::Type::Path(path) if path.path.is_ident(name))
}

fn words_of(block: &mut syn::ItemImpl) -> Option<&mut Vec<syn::Arm>> {
    block.items.iter_mut().find_map(|item| match item {
        ImplItem::Fn(function) => function.block.stmts.iter_mut().find_map(|statement| match statement {
            Stmt::Expr(Expr::Match(words), _) => Some(&mut words.arms),
            _ => None,
        }),
        _ => None,
    })
}
